#include "rewards/lab/pipelines.h"

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/config.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace hone::rewards {
namespace {

constexpr size_t kMaxValues = 1000;

/// A larger configuration of which only the pipeline matters here.
struct RewardsOfFile {
  PipelineConfig rewards;
};
template <class F>
void Describe(F& f, RewardsOfFile& c) {
  f.Section("rewards", c.rewards, "");
}

/// Reads `text`, in which the pipeline stands under `rewards:` or alone.
absl::StatusOr<PipelineConfig> ReadConfig(const std::string& text, const std::string& name,
                                          const std::vector<std::string>& overrides) {
  HONE_ASSIGN_OR_RETURN(const ConfigFile plain, ConfigFile::Parse(text, name));
  if (!plain.Root().Has("rewards")) {
    HONE_ASSIGN_OR_RETURN(const ConfigFile file, ConfigFile::Parse(text, name, overrides));
    PipelineConfig config;
    HONE_RETURN_IF_ERROR(file.Read(config));
    return config;
  }
  std::vector<std::string> prefixed;
  for (const std::string& override : overrides) prefixed.push_back("rewards." + override);
  HONE_ASSIGN_OR_RETURN(const ConfigFile file, ConfigFile::Parse(text, name, prefixed));
  RewardsOfFile config;
  ConfigReader reader = file.Root();
  reader.AllowOtherKeys();
  Describe(reader, config);
  HONE_RETURN_IF_ERROR(reader.Finish());
  return config.rewards;
}

/// The default pipeline by the names of its parts alone, so that an override may put another part in a place.
std::string DefaultText() {
  const PipelineConfig config;
  return absl::StrCat("terms: [{name: ", config.terms[0].term.name, "}]\nturns: {name: ", config.turns.rule.name,
                      "}\nadvantage: {name: ", config.advantage.kind.name, "}\n");
}

absl::Status BadSweep(const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat("--sweep ", text, ": expected KEY=FROM:TO:STEP or KEY=A,B,C with at most ", kMaxValues, " values"));
}

}  // namespace

absl::StatusOr<Pipeline> LoadPipeline(const std::string& path, const std::vector<std::string>& overrides) {
  std::string text = DefaultText();
  std::string name = "default pipeline";
  if (!path.empty()) {
    HONE_ASSIGN_OR_RETURN(text, ReadFile(path, 16 << 20));
    name = path;
  }
  HONE_ASSIGN_OR_RETURN(PipelineConfig config, ReadConfig(text, name, overrides));
  return Pipeline::Create(std::move(config));
}

absl::StatusOr<Sweep> ParseSweep(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return BadSweep(text);
  Sweep sweep;
  sweep.key = text.substr(0, equals);
  const std::string values = text.substr(equals + 1);
  const bool range = values.find(':') != std::string::npos;
  for (const absl::string_view part : absl::StrSplit(values, range ? ':' : ',')) {
    double value = 0;
    if (!absl::SimpleAtod(part, &value) || !std::isfinite(value)) return BadSweep(text);
    sweep.values.push_back(value);
  }
  if (!range) return sweep.values.size() <= kMaxValues ? absl::StatusOr<Sweep>(std::move(sweep)) : BadSweep(text);
  if (sweep.values.size() != 3) return BadSweep(text);
  const double from = sweep.values[0], to = sweep.values[1], step = sweep.values[2];
  const double steps = (to - from) / step;
  if (!(steps >= 0) || !(steps < kMaxValues)) return BadSweep(text);
  sweep.values.clear();
  // The end belongs to the range although ten steps of 0.1 do not add up to 1.
  for (int64_t i = 0; i <= static_cast<int64_t>(steps + 1e-9); ++i)
    sweep.values.push_back(from + static_cast<double>(i) * step);
  return sweep;
}

absl::StatusOr<std::vector<NamedPipeline>> SweepPipelines(const std::string& path,
                                                          const std::vector<std::string>& overrides,
                                                          const Sweep& sweep) {
  std::vector<NamedPipeline> pipelines;
  const std::string parameter = sweep.key.substr(sweep.key.rfind('.') + 1);
  for (const double value : sweep.values) {
    std::vector<std::string> all = overrides;
    all.push_back(absl::StrCat(sweep.key, "=", value));
    HONE_ASSIGN_OR_RETURN(Pipeline pipeline, LoadPipeline(path, all));
    pipelines.push_back({absl::StrCat(parameter, "=", value), std::move(pipeline)});
  }
  return pipelines;
}

}  // namespace hone::rewards
