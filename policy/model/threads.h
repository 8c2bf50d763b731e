#pragma once

namespace hone::policy {

/// Threads that the operators of a model share, for the whole process. Call once, before the first operator runs.
void SetComputeThreads(int threads);

}  // namespace hone::policy
