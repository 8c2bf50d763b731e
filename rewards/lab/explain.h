#pragma once

// A pipeline in words, with a worked example: what `hone lab explain` prints.

#include <string>

#include "rewards/compose/pipeline.h"

namespace hone::rewards {

/// The formula of every stage, then one group of episodes with the score, reward and advantage of each turn as the
/// pipeline itself computes them.
std::string Explain(const Pipeline& pipeline);

}  // namespace hone::rewards
