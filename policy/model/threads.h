#pragma once

#include <cstdint>

namespace hone::policy {

/// Threads that the operators of a model share, for the whole process. Call once, before the first operator runs.
void SetComputeThreads(int threads);

/// The generator that operators without one of their own draw from. Nothing of a run should; a checkpoint keeps its state,
/// which differs between equal runs without this.
void SeedOperators(uint64_t seed);

}  // namespace hone::policy
