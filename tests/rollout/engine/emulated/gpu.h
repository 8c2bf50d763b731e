#pragma once

// A GPU for kernels whose blocks wait for each other, on one CPU thread: every GPU thread is a coroutine that runs until it
// waits, in an order that changes; copies into shared memory arrive late and out of order, and until then their place holds
// NaNs. A kernel that waits for what never comes fails instead of hanging.

#include <cstddef>
#include <cstdint>
#include <functional>

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x_in = 1, unsigned y_in = 1, unsigned z_in = 1) : x(x_in), y(y_in), z(z_in) {}
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim;  // of the thread that runs

namespace hone::emulated {

/// Runs `body` as every thread of grid.x blocks, all at once. Throws std::runtime_error when no thread gets on any more.
void Run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& body);
/// The word that is published after `after` others never arrives.
void LoseWord(int64_t after);
[[noreturn]] void Fail(const char* why);

// For the thread that runs:
void Yield();
void SyncWarp();
void SyncBlock(int barrier, int threads);
/// Every lane of the warp gives a word and gets that of lane `from`.
uint32_t Exchange(uint32_t word, int from);
unsigned char* SharedMemory();  // of its block

}  // namespace hone::emulated
