#pragma once

// The sum behind policy/model/checksum.h, over device memory. No CUDA or torch headers, so that both sides may include
// this.

#include <cstdint>

namespace hone::policy::cuda {

/// Adds to *sum the mixed words of data [bytes], which are numbered from `first`. data on a multiple of 8 bytes, sum in
/// device memory. Asynchronous on `stream` (a cudaStream_t); the result is a cudaError_t, 0 for success.
int AddChecksum(const void* data, int64_t bytes, uint64_t first, uint64_t* sum, void* stream);

}  // namespace hone::policy::cuda
