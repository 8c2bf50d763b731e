#pragma once

// Runs variants of a simulation over seeds and says how they compare.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rewards/lab/pipelines.h"
#include "trainer/simulate/simulation.h"

namespace hone::trainer {

/// The configuration of a file, or the default where `path` is empty, with overrides ("retry.probability=0.2").
/// kInvalidArgument: with file, line and allowed range. kNotFound: no such file.
absl::StatusOr<SimulationConfig> LoadSimulation(const std::string& path, const std::vector<std::string>& overrides);

/// The configuration at every value of a sweep, named "probability=0.1"; the unchanged one first, as "full".
absl::StatusOr<std::vector<SimVariant>> SweepSimulation(const std::string& path,
                                                        const std::vector<std::string>& overrides,
                                                        const rewards::Sweep& sweep);

struct VariantRuns {
  std::string name;
  std::vector<SimResult> runs;  // [seeds]
};

/// Every variant with the same seeds: seed, seed + 1, ...
absl::StatusOr<std::vector<VariantRuns>> RunVariants(const World& world, const std::vector<SimVariant>& variants,
                                                     int64_t seeds, uint64_t seed);

/// A table: each variant's mean, and its difference to the first variant of the same seed as mean [smallest, largest].
std::string SimText(const World& world, const std::vector<VariantRuns>& variants);
/// One line a variant and seed.
std::string SimCsv(const std::vector<VariantRuns>& variants);
/// With learning curves.
std::string SimHtml(const World& world, const std::vector<VariantRuns>& variants);

}  // namespace hone::trainer
