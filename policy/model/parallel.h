#pragma once

// Loops on several threads. at::parallel_for is no help: its loop is a template over OpenMP, which does nothing in parallel
// where it is compiled without -fopenmp, and with it a second OpenMP runtime would stand beside the torch wheel's own.

#include <cstdint>
#include <functional>

namespace hone::policy {

/// body(from, to) over parts of [begin, end) that hold at least `grain` each (but the last), on as many threads as torch's
/// own operators use (SetComputeThreads, at::set_num_threads), the caller's among them. Returns when all parts are done;
/// what a body throws is thrown then, the first of several. Within a body, and while another thread is in here, a loop runs
/// on its caller's thread alone. Thread-safe. The threads belong to the process, as torch's do: they are started when first
/// needed and sleep when there is nothing to do.
void ParallelFor(int64_t begin, int64_t end, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace hone::policy
