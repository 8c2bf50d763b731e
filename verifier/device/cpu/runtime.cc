// The CPU backend's runtime library: launches, device memory, streams, events, error codes. One candidate per process and
// one thread, so that its state is one object of the process: the C API that candidates are written against has no handle.

#include "verifier/device/cpu/runtime.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <utility>

#include "verifier/device/cpu/include/hone/execution.h"
#include "verifier/device/cpu/include/hone/runtime_api.h"
#include "verifier/device/cpu/memory.h"

struct CUevent_st {
  timespec at;
  bool recorded;
};

namespace hone::cpu {
namespace {

// Limits of compute capability 9.0.
constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxBlockZ = 64;
constexpr unsigned kMaxGridX = 0x7fffffffu;
constexpr unsigned kMaxGridYZ = 65535;
constexpr size_t kSharedBytes = 48 * 1024;
constexpr size_t kSharedOptInBytes = 227 * 1024;
constexpr int kMultiProcessors = 132;

constexpr size_t kStackBytes = 128 * 1024;
constexpr size_t kGuardBytes = 4096;
constexpr int kRowsPerBatch = 128;
constexpr int kMaxShared = 256;  // __shared__ variables that are poisoned
constexpr size_t kLogBytes = 64 * 1024;

constexpr size_t kUpdates = 1 << 16;   // a power of two
constexpr size_t kUpdateProbes = 8;

// Who last changed an element of device memory by `+=` and the like.
struct Update {
  const void* place;
  unsigned long long launch;
  HoneDim block;
  unsigned thread;
  unsigned generation;  // of the block's barrier
};

struct SharedVariable {
  void* begin;
  size_t bytes;
};

// xorshift64*: the order of shuffled launches.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  unsigned Below(unsigned bound) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<unsigned>((state_ * 0x2545f4914f6cdd1du >> 33) % bound);
  }

 private:
  uint64_t state_;
};

class Runtime {
 public:
  HoneCpuMode mode{HONE_CPU_FORWARD, 0, 0, 0};
  Memory memory;
  cudaError last_error = cudaSuccess;
  cudaError first_error = cudaSuccess;
  HoneConfiguration configuration{};
  bool configured = false;
  size_t shared_limit = kSharedBytes;
  unsigned long long launches = 0;
  char fault[256] = "";
  size_t logged = 0;
  SharedVariable shared[kMaxShared];
  int shared_count = 0;
  unsigned char* dynamic_shared = nullptr;

  cudaError Fail(cudaError error) {
    if (error != cudaSuccess) {
      last_error = error;
      if (first_error == cudaSuccess) first_error = error;
    }
    return error;
  }

  bool Begin();
  void End();
  /// Ends the process where another thread changed the element in this launch and nothing orders the two.
  void NoteUpdate(const void* place, HoneDim block, unsigned thread);
  void RunRows(HoneRowsEntry entry, const void* closure);
  void RunBlocks(HoneBlockEntry entry, HoneThreadEntry thread, const void* closure);

 private:
  bool PrepareFibers(unsigned threads);
  void PoisonShared();
  /// The numbers of a block's threads in the order of the mode.
  void OrderThreads(unsigned* order, unsigned threads) const;
  template <class Visit>
  void EachBlock(Visit visit);

  HoneFiber* template_ = nullptr;  // [kMaxThreads] a block's fibers before it starts
  HoneFiber* fibers_ = nullptr;    // [kMaxThreads]
  HoneWarp* warps_ = nullptr;      // [kMaxThreads / 32]
  unsigned char* stacks_ = nullptr;
  unsigned stacks_ready_ = 0;
  unsigned char* shared_pages_ = nullptr;
  const HoneBlock* block_ = nullptr;  // that runs, of a kernel with barriers
  Update last_update_{};
  Update* updates_ = nullptr;         // [kUpdates] by address; those of earlier launches count for nothing
};

Runtime& State() {
  static Runtime runtime;
  return runtime;
}

cudaError CheckLimits(const HoneConfiguration& c, size_t shared_limit) {
  const HoneDim& g = c.grid;
  const HoneDim& b = c.block;
  if (g.x == 0 || g.y == 0 || g.z == 0 || b.x == 0 || b.y == 0 || b.z == 0) return cudaErrorInvalidConfiguration;
  if (g.x > kMaxGridX || g.y > kMaxGridYZ || g.z > kMaxGridYZ) return cudaErrorInvalidConfiguration;
  if (b.x > kMaxThreads || b.y > kMaxThreads || b.z > kMaxBlockZ) return cudaErrorInvalidConfiguration;
  if (static_cast<uint64_t>(b.x) * b.y * b.z > kMaxThreads) return cudaErrorInvalidConfiguration;
  if (c.shared_bytes > shared_limit) return cudaErrorInvalidValue;
  return cudaSuccess;
}

// Checks the pending configuration, and sets up dynamic shared memory ending at a guard page.
bool Runtime::Begin() {
  if (!configured) {
    hone_rt_fail("a kernel was called without an execution configuration");
  }
  configured = false;
  const cudaError error = CheckLimits(configuration, shared_limit);
  if (error != cudaSuccess) {
    Fail(error);
    return false;
  }
  if (configuration.shared_bytes > 0 && shared_pages_ == nullptr) {
    const size_t bytes = (kSharedOptInBytes + 4095) / 4096 * 4096;
    void* mapping = mmap(nullptr, bytes + 2 * kGuardBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED || mprotect(static_cast<char*>(mapping) + kGuardBytes, bytes, PROT_READ | PROT_WRITE) != 0) {
      Fail(cudaErrorLaunchOutOfResources);
      return false;
    }
    shared_pages_ = static_cast<unsigned char*>(mapping) + kGuardBytes + bytes;
  }
  dynamic_shared = shared_pages_ == nullptr ? nullptr : shared_pages_ - (configuration.shared_bytes + 15) / 16 * 16;
  ++launches;
  if (mode.kernels_off != 0) return false;
  if (mode.checked) memory.Open();
  return true;
}

void Runtime::End() {
  if (mode.checked) memory.Close();
}

// Threads of one warp may be ordered by __syncwarp or a shuffle, of which the runtime keeps no count.
void Runtime::NoteUpdate(const void* place, HoneDim block, unsigned thread) {
  if (!mode.checked) return;
  const unsigned generation = block_ != nullptr ? block_->generation : 0;
  const auto is_now = [&](const Update& update) {
    return update.launch == launches && update.place == place && update.thread == thread &&
           update.generation == generation && update.block.x == block.x && update.block.y == block.y &&
           update.block.z == block.z;
  };
  if (is_now(last_update_)) return;  // sums go on at one place
  const Region* region = memory.Find(place, 0);
  if (region == nullptr) return;
  if (updates_ == nullptr) {
    void* mapping = mmap(nullptr, kUpdates * sizeof(Update), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return;
    updates_ = static_cast<Update*>(mapping);
  }
  const Update now = last_update_ = {place, launches, block, thread, generation};
  const size_t home = reinterpret_cast<uintptr_t>(place) * 0x9e3779b97f4a7c15u >> 32;
  Update* slot = &updates_[home & (kUpdates - 1)];
  for (size_t probe = 0; probe < kUpdateProbes; ++probe) {
    Update* candidate = &updates_[(home + probe) & (kUpdates - 1)];
    if (candidate->launch != launches || candidate->place == place) {
      slot = candidate;
      break;
    }
  }
  const Update before = *slot;
  *slot = now;
  if (before.launch != launches || before.place != place) return;
  const bool same_block = before.block.x == block.x && before.block.y == block.y && before.block.z == block.z;
  const bool same_warp = block_ != nullptr && before.thread / 32 == thread / 32;
  if (same_block && (before.thread == thread || before.generation != generation || same_warp)) return;
  char text[sizeof fault];
  snprintf(text, sizeof text,
           "a data race: thread %u of block (%u, %u, %u) and thread %u of block (%u, %u, %u) both change byte %zu of %s of %zu "
           "bytes without an atomic",
           before.thread, before.block.x, before.block.y, before.block.z, thread, block.x, block.y, block.z,
           static_cast<size_t>(static_cast<const unsigned char*>(place) - region->begin),
           region->owned ? "memory of cudaMalloc" : "a device buffer", region->bytes);
  hone_rt_fail(text);
}

void Runtime::PoisonShared() {
  if (configuration.shared_bytes > 0) memset(dynamic_shared, 0xff, configuration.shared_bytes);
  for (int i = 0; i < shared_count; ++i) memset(shared[i].begin, 0xff, shared[i].bytes);
}

// Calls visit(HoneDim) for each block in the order of the mode. A shuffled order is an odd-step walk over the next power
// of two, so that it needs no memory.
template <class Visit>
void Runtime::EachBlock(Visit visit) {
  const HoneDim grid = configuration.grid;
  const uint64_t count = static_cast<uint64_t>(grid.x) * grid.y * grid.z;
  if (mode.order == HONE_CPU_FORWARD) {
    for (unsigned z = 0; z < grid.z; ++z) {
      for (unsigned y = 0; y < grid.y; ++y) {
        for (unsigned x = 0; x < grid.x; ++x) visit(HoneDim{x, y, z});
      }
    }
    return;
  }
  auto at = [&](uint64_t i) {
    visit(HoneDim{static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                  static_cast<unsigned>(i / grid.x / grid.y)});
  };
  if (mode.order == HONE_CPU_REVERSE) {
    for (uint64_t i = count; i-- > 0;) at(i);
    return;
  }
  uint64_t span = 1;
  while (span < count) span *= 2;
  Random random(mode.seed);
  const uint64_t step = random.Below(1u << 30) * 2ull + 1;
  const uint64_t start = random.Below(1u << 30);
  for (uint64_t i = 0; i < span; ++i) {
    const uint64_t index = (start + i * step) & (span - 1);
    if (index < count) at(index);
  }
}

void Runtime::OrderThreads(unsigned* order, unsigned threads) const {
  for (unsigned i = 0; i < threads; ++i) order[i] = mode.order == HONE_CPU_REVERSE ? threads - 1 - i : i;
  if (mode.order != HONE_CPU_SHUFFLED) return;
  Random random(mode.seed + 1);
  for (unsigned i = threads; i > 1; --i) std::swap(order[i - 1], order[random.Below(i)]);
}

void Runtime::RunRows(HoneRowsEntry entry, const void* closure) {
  if (!Begin()) return;
  const HoneDim block = configuration.block;
  HoneRow rows[kRowsPerBatch];
  HoneRows batch{configuration.grid, block, rows, 0};
  auto flush = [&] {
    entry(closure, &batch);
    batch.count = 0;
  };
  auto add = [&](const HoneRow& row) {
    rows[batch.count++] = row;
    if (batch.count == kRowsPerBatch) flush();
  };
  if (mode.order == HONE_CPU_FORWARD) {
    EachBlock([&](HoneDim at) {
      for (unsigned z = 0; z < block.z; ++z) {
        for (unsigned y = 0; y < block.y; ++y) add(HoneRow{at, y, z, 0, block.x});
      }
    });
  } else {
    // One thread a row: any order of the threads of a block can be told to the same loop.
    const unsigned threads = block.x * block.y * block.z;
    unsigned order[kMaxThreads];
    OrderThreads(order, threads);
    EachBlock([&](HoneDim at) {
      for (unsigned i = 0; i < threads; ++i) {
        const unsigned x = order[i] % block.x;
        add(HoneRow{at, order[i] / block.x % block.y, order[i] / block.x / block.y, x, x + 1});
      }
    });
  }
  if (batch.count > 0) flush();
  End();
}

// Stacks lie a page apart beyond their size, each starting at another cache set, so that the hot ends of 256 stacks do
// not compete for the same lines.
bool Runtime::PrepareFibers(unsigned threads) {
  constexpr size_t stride = kStackBytes + kGuardBytes;
  if (stacks_ == nullptr) {
    void* mapping = mmap(nullptr, kMaxThreads * stride, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const size_t state_bytes = 2 * kMaxThreads * sizeof(HoneFiber) + kMaxThreads / 32 * sizeof(HoneWarp);
    void* state = mmap(nullptr, state_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED || state == MAP_FAILED) return false;
    stacks_ = static_cast<unsigned char*>(mapping);
    fibers_ = static_cast<HoneFiber*>(state);
    template_ = fibers_ + kMaxThreads;
    warps_ = reinterpret_cast<HoneWarp*>(template_ + kMaxThreads);
  }
  for (; stacks_ready_ < threads; ++stacks_ready_) {
    unsigned char* stack = stacks_ + stacks_ready_ * stride + kGuardBytes;
    if (mprotect(stack, kStackBytes, PROT_READ | PROT_WRITE) != 0) return false;
  }
  return true;
}

void Runtime::RunBlocks(HoneBlockEntry entry, HoneThreadEntry thread, const void* closure) {
  if (!Begin()) return;
  const HoneDim dim = configuration.block;
  const unsigned threads = dim.x * dim.y * dim.z;
  if (!PrepareFibers(threads)) {
    Fail(cudaErrorLaunchOutOfResources);
    End();
    return;
  }
  constexpr size_t stride = kStackBytes + kGuardBytes;
  unsigned order[kMaxThreads];
  OrderThreads(order, threads);
  for (unsigned i = 0; i < threads; ++i) {
    const unsigned thread_number = order[i];
    HoneFiber& fiber = template_[i];
    unsigned char* top = stacks_ + (i + 1) * stride - (i * 5 % 64) * 64;
    fiber.stack_pointer = top - 72;  // as after a call: 8 below a multiple of 16
    fiber.resume = reinterpret_cast<void*>(thread);
    fiber.waits = kHoneRuns;
    fiber.thread = HoneDim{thread_number % dim.x, thread_number / dim.x % dim.y, thread_number / dim.x / dim.y};
    fiber.lane = thread_number % 32;
    fiber.warp = &warps_[thread_number / 32];
    fiber.warp->lanes[fiber.lane] = &fibers_[i];
  }
  HoneBlock block{};
  block.grid = configuration.grid;
  block.dim = dim;
  block.closure = closure;
  block.first = fibers_;
  block.threads = threads;
  block_ = &block;
  const unsigned warps = (threads + 31) / 32;
  EachBlock([&](HoneDim at) {
    memcpy(fibers_, template_, threads * sizeof(HoneFiber));
    for (unsigned w = 0; w < warps; ++w) {
      const unsigned lanes = threads - w * 32 < 32 ? threads - w * 32 : 32;
      warps_[w].alive = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
      warps_[w].arrived = warps_[w].unread = warps_[w].deferred = warps_[w].votes_in = 0;
    }
    block.index = at;
    block.alive = threads;
    block.arrived = block.count_in = 0;
    block.generation = 1;
    if (mode.checked) PoisonShared();
    entry(&block);
  });
  block_ = nullptr;
  End();
}

}  // namespace
}  // namespace hone::cpu

using hone::cpu::State;

#pragma GCC visibility push(default)
extern "C" {

void hone_rt_configure(const HoneConfiguration* configuration) {
  State().configuration = *configuration;
  State().configured = true;
}

void hone_rt_launch_rows(HoneRowsEntry entry, const void* closure) { State().RunRows(entry, closure); }

void hone_rt_launch_blocks(HoneBlockEntry entry, HoneThreadEntry thread, const void* closure) {
  State().RunBlocks(entry, thread, closure);
}

void* hone_rt_dynamic_shared(void) { return State().dynamic_shared; }

void hone_rt_fail(const char* what) {
  snprintf(State().fault, sizeof State().fault, "%s", what);
  __builtin_trap();
}

void hone_rt_update(const void* place, HoneDim block, unsigned thread) { State().NoteUpdate(place, block, thread); }

void hone_rt_declare_shared(void* begin, unsigned long bytes) {
  auto& runtime = State();
  for (int i = 0; i < runtime.shared_count; ++i) {
    if (runtime.shared[i].begin == begin) return;
  }
  if (runtime.shared_count == hone::cpu::kMaxShared) return;
  runtime.shared[runtime.shared_count++] = {begin, bytes};
  if (runtime.mode.checked) memset(begin, 0xff, bytes);
}

int hone_rt_printf(const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  auto& runtime = State();
  const size_t bytes = length < 0 ? 0 : strlen(line);
  if (runtime.logged + bytes <= hone::cpu::kLogBytes && write(STDERR_FILENO, line, bytes) >= 0) runtime.logged += bytes;
  return length;
}

void hone_cpu_set_mode(const HoneCpuMode* mode) {
  State().mode = *mode;
  if (mode->checked) {
    State().memory.Close();
  } else {
    State().memory.Open();
  }
}

int hone_cpu_register_buffer(void* begin, unsigned long long bytes, int writable) {
  return State().memory.Register(begin, bytes, writable != 0) ? 0 : -1;
}

void hone_cpu_unregister_buffers(void) { State().memory.UnregisterAll(); }

void hone_cpu_reset(void) {
  auto& runtime = State();
  runtime.memory.FreeAll();
  runtime.last_error = runtime.first_error = cudaSuccess;
  runtime.shared_limit = hone::cpu::kSharedBytes;
  runtime.launches = 0;
  runtime.logged = 0;
}

int hone_cpu_first_error(void) { return State().first_error; }
unsigned long long hone_cpu_launches(void) { return State().launches; }
const char* hone_cpu_fault(void) { return State().fault; }
void* hone_cpu_allocate(unsigned long long bytes) { return State().memory.Allocate(bytes); }

const char* hone_cpu_explain_address(const void* address) {
  static char text[160];
  const auto* region = State().memory.Find(address, 1 << 20);
  text[0] = 0;
  if (region == nullptr) return text;
  const auto* byte = static_cast<const unsigned char*>(address);
  const char* kind = region->owned ? "memory of cudaMalloc" : "a device buffer";
  if (byte < region->begin) {
    snprintf(text, sizeof text, "%zu bytes before the start of %s of %zu bytes", static_cast<size_t>(region->begin - byte),
             kind, region->bytes);
  } else if (byte >= region->begin + region->bytes) {
    snprintf(text, sizeof text, "%zu bytes past the end of %s of %zu bytes",
             static_cast<size_t>(byte - region->begin - region->bytes), kind, region->bytes);
  } else if (!region->writable) {
    snprintf(text, sizeof text, "byte %zu of a read-only device buffer", static_cast<size_t>(byte - region->begin));
  } else {
    snprintf(text, sizeof text, "byte %zu of %s, touched by host code", static_cast<size_t>(byte - region->begin), kind);
  }
  return text;
}

const char* hone_cpu_explain_fault(const void* address, const void* context) {
  static char text[200];
  const char* place = hone_cpu_explain_address(address);
  const char* access = "touching";
#if defined(__x86_64__)
  const auto* machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
  access = (machine->gregs[REG_ERR] & 2) != 0 ? "writing" : "reading";
#endif
  snprintf(text, sizeof text, "%s %s", access, place[0] != 0 ? place : "far from any device buffer");
  return text;
}

// ---- the CUDA runtime API

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  if (pointer == nullptr) return State().Fail(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  *pointer = State().memory.Allocate(bytes);
  if (*pointer == nullptr) return State().Fail(cudaErrorMemoryAllocation);
  if (State().mode.checked) State().memory.Close();
  return cudaSuccess;
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) { return cudaMalloc(pointer, bytes); }

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned) {
  if (pointer == nullptr || bytes == 0) return State().Fail(cudaErrorInvalidValue);
  *pointer = State().memory.Allocate(bytes, /*host_visible=*/true);
  return *pointer == nullptr ? State().Fail(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) { return cudaMallocManaged(pointer, bytes, 1); }

cudaError_t cudaFree(void* pointer) {
  if (pointer == nullptr || State().memory.Free(pointer)) return cudaSuccess;
  return State().Fail(cudaErrorInvalidValue);
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return cudaFree(pointer); }
cudaError_t cudaFreeHost(void* pointer) { return cudaFree(pointer); }

namespace {

// Whether [pointer, pointer + bytes) lies in device memory. Only the checked mode knows all of it.
bool OnDevice(const void* pointer, size_t bytes) {
  if (!State().mode.checked) return true;
  const auto* region = State().memory.Find(pointer, 0);
  const auto* byte = static_cast<const unsigned char*>(pointer);
  return region != nullptr && byte + bytes <= region->begin + region->bytes;
}

bool KnownKind(cudaMemcpyKind kind) { return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault; }

class OpenMemory {
 public:
  OpenMemory() {
    if (State().mode.checked) State().memory.Open();
  }
  ~OpenMemory() {
    if (State().mode.checked) State().memory.Close();
  }
};

}  // namespace

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  if (!KnownKind(kind)) return State().Fail(cudaErrorInvalidMemcpyDirection);
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (to == nullptr || from == nullptr || (to_device && !OnDevice(to, bytes)) || (from_device && !OnDevice(from, bytes))) {
    return State().Fail(cudaErrorInvalidValue);
  }
  const OpenMemory open;
  memmove(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}

cudaError_t cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                         cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return State().Fail(cudaErrorInvalidValue);
  for (size_t row = 0; row < height; ++row) {
    const cudaError_t error = cudaMemcpy(static_cast<char*>(to) + row * to_pitch,
                                         static_cast<const char*>(from) + row * from_pitch, width, kind);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  if (to == nullptr || !OnDevice(to, bytes)) return State().Fail(cudaErrorInvalidValue);
  const OpenMemory open;
  memset(to, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) { return cudaMemset(to, value, bytes); }

cudaError_t hone_rt_copy_symbol(void* symbol, size_t symbol_bytes, size_t offset, void* memory, size_t bytes,
                                int to_symbol) {
  if (memory == nullptr || offset > symbol_bytes || bytes > symbol_bytes - offset) {
    return State().Fail(cudaErrorInvalidValue);
  }
  const OpenMemory open;
  char* place = static_cast<char*>(symbol) + offset;
  memcpy(to_symbol ? place : memory, to_symbol ? memory : place, bytes);
  return cudaSuccess;
}

cudaError_t hone_rt_function_attribute(const void*, cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  if (value < 0 || static_cast<size_t>(value) > hone::cpu::kSharedOptInBytes) return State().Fail(cudaErrorInvalidValue);
  if (static_cast<size_t>(value) > State().shared_limit) State().shared_limit = static_cast<size_t>(value);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  if (stream == nullptr) return State().Fail(cudaErrorInvalidValue);
  *stream = static_cast<cudaStream_t>(malloc(1));
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  free(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  if (event == nullptr) return State().Fail(cudaErrorInvalidValue);
  *event = static_cast<cudaEvent_t>(calloc(1, sizeof(CUevent_st)));
  return *event == nullptr ? State().Fail(cudaErrorMemoryAllocation) : cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  free(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  if (event == nullptr) return State().Fail(cudaErrorInvalidResourceHandle);
  clock_gettime(CLOCK_MONOTONIC, &event->at);
  event->recorded = true;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return event == nullptr ? State().Fail(cudaErrorInvalidResourceHandle) : cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t stop) {
  if (ms == nullptr || start == nullptr || stop == nullptr || !start->recorded || !stop->recorded) {
    return State().Fail(cudaErrorInvalidResourceHandle);
  }
  *ms = static_cast<float>(static_cast<double>(stop->at.tv_sec - start->at.tv_sec) * 1e3 +
                           static_cast<double>(stop->at.tv_nsec - start->at.tv_nsec) * 1e-6);
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
cudaError_t cudaThreadSynchronize(void) { return cudaSuccess; }
cudaError_t cudaGetLastError(void) {
  const cudaError_t error = State().last_error;
  State().last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError(void) { return State().last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidMemcpyDirection: return "cudaErrorInvalidMemcpyDirection";
    case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
    case cudaErrorLaunchOutOfResources: return "cudaErrorLaunchOutOfResources";
    case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
    case cudaErrorNotSupported: return "cudaErrorNotSupported";
    default: return "cudaErrorUnknown";
  }
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidMemcpyDirection: return "invalid copy direction for memcpy";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorLaunchOutOfResources: return "too many resources requested for launch";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorNotSupported: return "operation not supported";
    default: return "unknown error";
  }
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : State().Fail(cudaErrorInvalidDevice); }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (properties == nullptr) return State().Fail(cudaErrorInvalidValue);
  if (device != 0) return State().Fail(cudaErrorInvalidDevice);
  memset(properties, 0, sizeof *properties);
  snprintf(properties->name, sizeof properties->name, "hone CPU backend (emulated CUDA)");
  properties->totalGlobalMem = size_t{8} << 30;
  properties->sharedMemPerBlock = hone::cpu::kSharedBytes;
  properties->sharedMemPerBlockOptin = hone::cpu::kSharedOptInBytes;
  properties->sharedMemPerMultiprocessor = hone::cpu::kSharedOptInBytes + 1024;
  properties->regsPerBlock = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = static_cast<int>(hone::cpu::kMaxThreads);
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = static_cast<int>(hone::cpu::kMaxThreads);
  properties->maxThreadsDim[2] = static_cast<int>(hone::cpu::kMaxBlockZ);
  properties->maxGridSize[0] = static_cast<int>(hone::cpu::kMaxGridX);
  properties->maxGridSize[1] = properties->maxGridSize[2] = static_cast<int>(hone::cpu::kMaxGridYZ);
  properties->major = 9;
  properties->multiProcessorCount = hone::cpu::kMultiProcessors;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->l2CacheSize = 50 << 20;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (value == nullptr) return State().Fail(cudaErrorInvalidValue);
  if (device != 0) return State().Fail(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = static_cast<int>(hone::cpu::kMaxThreads); break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(hone::cpu::kSharedBytes); break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMultiProcessorCount: *value = hone::cpu::kMultiProcessors; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = static_cast<int>(hone::cpu::kSharedOptInBytes + 1024); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(hone::cpu::kSharedOptInBytes); break;
    default: return State().Fail(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  *total_bytes = size_t{8} << 30;
  *free_bytes = *total_bytes / 2;
  return cudaSuccess;
}

}  // extern "C"
#pragma GCC visibility pop
