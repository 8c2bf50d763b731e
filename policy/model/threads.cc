#include "policy/model/threads.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

namespace hone::policy {

void SetComputeThreads(int threads) { at::set_num_threads(threads); }

void SeedOperators(uint64_t seed) { at::manual_seed(seed); }

}  // namespace hone::policy
