#include "policy/model/cuda/checksum.h"

#include <cuda_runtime_api.h>

#include "policy/model/mix.h"

namespace hone::policy::cuda {
namespace {

constexpr int kThreads = 256, kBlocks = 2048;

__global__ void AddWords(const uint64_t* words, int64_t count, uint64_t first, const uint8_t* tail, int tail_bytes,
                         unsigned long long* sum) {
  uint64_t own = 0;
  const int64_t stride = int64_t{kThreads} * gridDim.x, start = blockIdx.x * int64_t{kThreads} + threadIdx.x;
  for (int64_t i = start; i < count; i += stride) own += MixWord(words[i], first + static_cast<uint64_t>(i));
  if (start == 0 && tail_bytes > 0) {
    uint64_t last = 0;
    for (int b = 0; b < tail_bytes; ++b) last |= uint64_t{tail[b]} << (8 * b);
    own += MixWord(last, first + static_cast<uint64_t>(count));
  }
  for (int offset = 16; offset > 0; offset /= 2) own += __shfl_down_sync(0xffffffffu, own, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, static_cast<unsigned long long>(own));
}

}  // namespace

int AddChecksum(const void* data, int64_t bytes, uint64_t first, uint64_t* sum, void* stream) {
  const int64_t words = bytes / 8, needed = (words + kThreads - 1) / kThreads;
  const unsigned blocks = static_cast<unsigned>(needed < 1 ? 1 : needed > kBlocks ? kBlocks : needed);
  AddWords<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint64_t*>(data), words, first, static_cast<const uint8_t*>(data) + words * 8,
      static_cast<int>(bytes % 8), reinterpret_cast<unsigned long long*>(sum));
  return cudaGetLastError();
}

}  // namespace hone::policy::cuda
