#include "policy/model/threads.h"

#include <ATen/Parallel.h>

namespace hone::policy {

void SetComputeThreads(int threads) { at::set_num_threads(threads); }

}  // namespace hone::policy
