#include "base/protocol.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/names.h"

namespace hone {
namespace {

constexpr NameTable<Baseline, 4> kBaselines = {{{Baseline::kEager, "eager"},
                                                {Baseline::kCompile, "compile"},
                                                {Baseline::kGraph, "graph"},
                                                {Baseline::kScalar, "scalar"}}};

/// scripts/generate_and_eval_single_sample.py of KernelBench: 5 correctness trials, 100 timed ones, means compared.
Protocol KernelBench() {
  Protocol protocol;
  protocol.id = "kernelbench-v0.1";
  protocol.check_sets_per_shape = 5;
  protocol.check_variants = false;
  protocol.check_profiles = false;
  protocol.statistic = SpeedupStatistic::kRatioOfMeans;
  protocol.timed_by_events = true;
  protocol.min_rounds = 100;
  protocol.max_rounds = 100;
  protocol.build_timeout_ms = 300'000;
  protocol.run_timeout_ms = 180'000;
  return protocol;
}

Protocol Quick() {
  Protocol protocol;
  protocol.id = "quick";
  protocol.baselines = {Baseline::kScalar, Baseline::kEager};
  protocol.min_rounds = 5;
  protocol.max_rounds = 15;
  protocol.target_half_width = 0.03;
  protocol.max_overhead = 0.04;
  protocol.build_timeout_ms = 30'000;
  protocol.run_timeout_ms = 10'000;
  return protocol;
}

std::vector<Protocol> AllProtocols() { return {Protocol(), KernelBench(), Quick()}; }

}  // namespace

std::vector<std::string> ProtocolIds() {
  std::vector<std::string> ids;
  for (const Protocol& protocol : AllProtocols()) ids.push_back(protocol.id);
  return ids;
}

absl::StatusOr<Protocol> ProtocolById(absl::string_view id) {
  for (Protocol& protocol : AllProtocols()) {
    if (protocol.id == id) return protocol;
  }
  return absl::NotFoundError(
      absl::StrCat("no protocol '", id, "'; there are ", absl::StrJoin(ProtocolIds(), ", ")));
}

absl::string_view Name(Baseline baseline) { return NameIn(kBaselines, baseline); }
std::optional<Baseline> ParseBaseline(absl::string_view name) { return ParseIn(kBaselines, name); }

}  // namespace hone
