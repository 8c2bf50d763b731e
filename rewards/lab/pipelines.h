#pragma once

// The pipelines of one replay: configuration files, overrides and sweeps.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rewards/compose/pipeline.h"

namespace hone::rewards {

struct NamedPipeline {
  std::string name;
  Pipeline pipeline;
};

/// The `rewards:` section of any configuration file, or a file that is nothing but a pipeline. Overrides are relative
/// to the pipeline: "turns.alpha=0.5", "terms.0.lambda=1". An empty path is the default pipeline. kInvalidArgument:
/// with file, line and allowed range. kNotFound: no such file.
absl::StatusOr<Pipeline> LoadPipeline(const std::string& path, const std::vector<std::string>& overrides);

/// One parameter over several values: "turns.alpha=0:1:0.25" (from, to, step; the end included) or
/// "terms.0.lambda=0.25,0.5,1".
struct Sweep {
  std::string key;
  std::vector<double> values;
};
/// kInvalidArgument: not of this form, or more than 1,000 values.
absl::StatusOr<Sweep> ParseSweep(const std::string& text);

/// The pipeline of `path` at every value of the sweep, named "alpha=0.25".
absl::StatusOr<std::vector<NamedPipeline>> SweepPipelines(const std::string& path,
                                                          const std::vector<std::string>& overrides,
                                                          const Sweep& sweep);

}  // namespace hone::rewards
