#include "gpu.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "rollout/engine/cuda/ptx.cuh"

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace hone::emulated {
namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr int kIdleSweeps = 200;  // over all threads, without any getting on: they wait for ever

uint64_t progress = 0;  // what waiting threads could have waited for
int64_t lost_after = -1;

struct Meeting {
  int count = 0;
  uint64_t round = 0;
};

// An mbarrier.
struct CopyBarrier {
  int arrivals = 0, missing = 0;
  int64_t bytes = 0;
  uint32_t phase = 0;
  void Check() {
    if (missing > 0 || bytes != 0) return;
    ++phase;
    ++progress;
    missing = arrivals;
  }
};

struct BulkCopy {
  int sweeps;  // until it arrives
  unsigned char* to;
  const void* from;
  uint32_t bytes;
  CopyBarrier* barrier;
};

struct Block {
  std::vector<unsigned char> memory;
  unsigned char* shared = nullptr;
  Meeting meetings[2];
  std::map<uint32_t, CopyBarrier> barriers;  // by address
  std::vector<BulkCopy> copies;
  std::mt19937 random{5};
};

struct Warp {
  Meeting meeting;
  uint32_t words[32][6];
};

struct SmallCopy {
  uint32_t to;
  const void* from;
  bool valid;
};

struct Thread {
  ucontext_t context;  // to begin with
  jmp_buf place;       // to go on: without the system calls of swapcontext
  bool begun = false;
  std::unique_ptr<char[]> stack;
  dim3 thread, block_index;
  Block* block;
  Warp* warp;
  bool done = false;
  std::string failure;
  std::vector<SmallCopy> copies;
};

Thread* current = nullptr;
jmp_buf scheduler;
const std::function<void()>* body = nullptr;

void Enter() {
  try {
    (*body)();
  } catch (const std::exception& error) {
    current->failure = error.what();
  }
  current->done = true;
  _longjmp(scheduler, 1);
}

void Switch() {
  if (_setjmp(scheduler) != 0) return;
  if (current->begun) _longjmp(current->place, 1);
  current->begun = true;
  setcontext(&current->context);
}

void Meet(Meeting& meeting, int count) {
  const uint64_t round = meeting.round;
  if (++meeting.count == count) {
    meeting.count = 0;
    ++meeting.round;
    ++progress;
    return;
  }
  while (meeting.round == round) Yield();
}

void Resume(Thread& thread) {
  current = &thread;
  threadIdx = thread.thread;
  blockIdx = thread.block_index;
  Switch();
  if (!thread.failure.empty()) throw std::runtime_error(thread.failure);
}

void Deliver(Block& block) {
  std::erase_if(block.copies, [&](BulkCopy& copy) {
    if (--copy.sweeps > 0) return false;
    std::memcpy(copy.to, copy.from, copy.bytes);
    copy.barrier->bytes -= copy.bytes;
    copy.barrier->Check();
    ++progress;
    return true;
  });
}

void Prepare(Thread& thread) {
  thread.stack.reset(new char[kStackBytes]);
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack.get();
  thread.context.uc_stack.ss_size = kStackBytes;
  makecontext(&thread.context, Enter, 0);
}

struct Launch {
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::unique_ptr<Warp>> warps;
  std::vector<std::unique_ptr<Thread>> threads;

  Launch(dim3 grid, dim3 block, size_t shared_bytes) {
    for (unsigned b = 0; b < grid.x; ++b) {
      blocks.push_back(std::make_unique<Block>());
      blocks.back()->memory.resize(shared_bytes + 1024, 0xff);
      blocks.back()->shared = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(blocks.back()->memory.data()) + 1023) / 1024 * 1024);
      for (unsigned t = 0; t < block.x; ++t) {
        if (t % 32 == 0) warps.push_back(std::make_unique<Warp>());
        auto thread = std::make_unique<Thread>();
        thread->thread = {t, 0, 0};
        thread->block_index = {b, 0, 0};
        thread->block = blocks.back().get();
        thread->warp = warps.back().get();
        Prepare(*thread);
        threads.push_back(std::move(thread));
      }
    }
  }
};

}  // namespace

void LoseWord(int64_t after) { lost_after = after; }
void Fail(const char* why) { throw std::runtime_error(why); }
void Yield() {
  if (_setjmp(current->place) == 0) _longjmp(scheduler, 1);
}
void SyncWarp() { Meet(current->warp->meeting, 32); }
void SyncBlock(int barrier, int threads) { Meet(current->block->meetings[barrier], threads); }
unsigned char* SharedMemory() { return current->block->shared; }

uint32_t Exchange(uint32_t word, int from) {
  Warp& warp = *current->warp;
  warp.words[current->thread.x % 32][0] = word;
  SyncWarp();
  const uint32_t other = warp.words[from][0];
  SyncWarp();
  return other;
}


void Run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& kernel) {
  Launch launch(grid, block, shared_bytes);
  gridDim = grid;
  blockDim = block;
  body = &kernel;
  std::mt19937 random(5);
  std::vector<size_t> order(launch.warps.size());
  for (size_t w = 0; w < order.size(); ++w) order[w] = w;
  size_t left = launch.threads.size();
  uint64_t seen = progress;
  int idle = 0;
  for (int64_t sweep = 0; left > 0; ++sweep) {
    idle = progress == seen ? idle + 1 : 0;
    seen = progress;
    if (idle == kIdleSweeps) throw std::runtime_error("threads wait for what never comes");
    if (sweep % 16 == 0) std::shuffle(order.begin(), order.end(), random);
    for (size_t w : order) {
      for (size_t t = w * 32; t < std::min((w + 1) * 32, launch.threads.size()); ++t) {
        Thread& thread = *launch.threads[t];
        if (thread.done) continue;
        Resume(thread);
        left -= thread.done;
        progress += thread.done;
      }
    }
    for (const auto& each : launch.blocks) Deliver(*each);
  }
  for (const auto& each : launch.blocks) {
    if (!each->copies.empty()) throw std::runtime_error("the kernel ended before its copies");
  }
}

}  // namespace hone::emulated

namespace hone::rollout::cuda {

using emulated::current;

unsigned char* DynamicShared() { return emulated::SharedMemory(); }
uint32_t SharedAddress(const void* p) { return static_cast<uint32_t>(static_cast<const unsigned char*>(p) - emulated::SharedMemory()); }

void CopyAsync(uint32_t to, const void* from, bool valid) {
  std::memset(emulated::SharedMemory() + to, 0xff, 16);
  current->copies.push_back({to, from, valid});
}
void FinishCopies() {
  for (const emulated::SmallCopy& copy : current->copies) {
    unsigned char* to = emulated::SharedMemory() + copy.to;
    copy.valid ? std::memcpy(to, copy.from, 16) : std::memset(to, 0, 16);
  }
  current->copies.clear();
}

namespace {
emulated::CopyBarrier& At(uint32_t barrier) { return current->block->barriers[barrier]; }
}  // namespace

void InitBarrier(uint32_t barrier, int arrivals) { At(barrier) = {arrivals, arrivals, 0, 0}; }
void Arrive(uint32_t barrier) {
  if (At(barrier).missing == 0) emulated::Fail("a barrier sees more arrivals than it counts");
  --At(barrier).missing;
  At(barrier).Check();
}
void ArriveExpecting(uint32_t barrier, uint32_t bytes) {
  At(barrier).bytes += bytes;
  Arrive(barrier);
}
void WaitForPhase(uint32_t barrier, uint32_t parity) {
  while ((At(barrier).phase & 1) == parity) emulated::Yield();
}
void CopyBulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier, uint64_t) {
  if (to % 16 != 0 || bytes % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) emulated::Fail("a bulk copy is not aligned");
  std::memset(emulated::SharedMemory() + to, 0xff, bytes);
  // Most arrive soon, some very late.
  std::mt19937& random = current->block->random;
  const int sweeps = static_cast<int>(random() % 16 == 0 ? random() % 120 : random() % 2);
  current->block->copies.push_back({sweeps, emulated::SharedMemory() + to, from, bytes, &At(barrier)});
}

namespace {
void Load(uint32_t (&r)[4], uint32_t at, bool transposed) {
  emulated::Warp& warp = *current->warp;
  const int lane = static_cast<int>(threadIdx.x % 32);
  warp.words[lane][0] = at;
  emulated::SyncWarp();
  for (int m = 0; m < 4; ++m) {
    uint16_t pair[2];
    for (int k = 0; k < 2; ++k) {
      const int row = transposed ? lane % 4 * 2 + k : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + k;
      std::memcpy(&pair[k], emulated::SharedMemory() + warp.words[8 * m + row][0] + column * 2, 2);
    }
    std::memcpy(&r[m], pair, 4);
  }
  emulated::SyncWarp();
}
float HalfOf(uint32_t pair, int which) {
  const uint32_t bits = which == 0 ? pair << 16 : pair & 0xffff0000u;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
}  // namespace

void LoadMatrices(uint32_t (&r)[4], uint32_t at) { Load(r, at, false); }
void LoadMatricesTransposed(uint32_t (&r)[4], uint32_t at) { Load(r, at, true); }

// PTX ISA, "Matrix fragments for mma.m16n8k16": which lane holds what.
void Multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated::Warp& warp = *current->warp;
  const int lane = static_cast<int>(threadIdx.x % 32);
  std::copy(a, a + 4, warp.words[lane]);
  warp.words[lane][4] = b0;
  warp.words[lane][5] = b1;
  emulated::SyncWarp();
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) {
      const uint32_t x = warp.words[row % 8 * 4 + k % 8 / 2][row / 8 + 2 * (k / 8)], y = warp.words[column * 4 + k % 8 / 2][4 + k / 8];
      c[i] += HalfOf(x, k % 2) * HalfOf(y, k % 2);
    }
  }
  emulated::SyncWarp();
}

namespace {
template <class Word>
void Write(Word* to, Word word) {
  ++emulated::progress;
  if (emulated::lost_after >= 0 && emulated::lost_after-- == 0) return;
  *to = word;
}
}  // namespace
void Publish(uint32_t* to, uint32_t word) { Write(to, word); }
void Publish(uint64_t* to, uint64_t word) { Write(to, word); }
uint4 Look(const uint32_t* from) {
  emulated::Yield();
  uint4 words;
  std::memcpy(&words, from, sizeof words);
  return words;
}
uint64_t Look(const uint64_t* from) {
  emulated::Yield();
  return *const_cast<const volatile uint64_t*>(from);
}

}  // namespace hone::rollout::cuda
