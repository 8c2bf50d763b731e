#pragma once

// Turns CUDA C++ into C++ that g++ compiles against the CPU backend's prelude. Only what C++ cannot express changes:
//   k<<<g, b, s, t>>>(a)        (::hone_configure(g, b, s, t), k(a))
//   __global__ void k(...) {B}  void k(...) { ::hone_run_rows<true>([=]() mutable {B}); }, or hone_run_blocks where B, or
//                               anything it may call, meets other threads at a barrier or in a warp
//   __shared__ T s[n];          static T s[n];
//   extern __shared__ T s[];    T* s = (T*)::hone_rt_dynamic_shared();
//   out[i] += v                 ::hone_update(out[i]) += v, in checked builds: two threads that change one element of device
//                               memory with nothing to order them are a race, also where any order gives the right sum
//   blockIdx.x * blockDim.x + threadIdx.x    the counter of the loop over the threads: the compiler sees where it is
//                               contiguous
// Lines keep their numbers. Besides, the rewriter reports what nvcc refuses and g++ would take: host functions called in
// kernels, device functions called on the host, kernels called without a configuration, initialised shared variables.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace hone::verifier {

struct SourceError {
  int line = 0;
  std::string message;
};

struct Rewritten {
  std::string source;
  std::vector<SourceError> errors;  // nvcc's refusals, in order of lines
  bool defines_launch = false;      // a function of that name has a body
  bool has_arrays = false;          // local or __shared__ arrays: worth compiling with bounds checks
  bool has_updates = false;         // `+=` and the like on what may be device memory: worth checking for races
  bool has_local_arrays = false;    // arrays of one thread, or hints to unroll: worth full optimisation
};

struct RewriteOptions {
  bool checked = false;  // __shared__ variables register themselves, so that each block can start with undefined contents,
                         // and updates of device memory tell who makes them
  bool relaxed_constexpr = true;  // nvcc's --expt-relaxed-constexpr: device code may call std::max, std::min
};

Rewritten RewriteCuda(absl::string_view source, const RewriteOptions& options = {});

}  // namespace hone::verifier
