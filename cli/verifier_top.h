#pragma once

// `hone verifier top`: what a verifier or farm is doing, as a table that renews itself on a terminal.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/verify_request.h"

namespace hone::cli {

/// One sample of Prometheus' text form.
struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

/// Lines that do not parse are left out: a newer server may say more than we know.
std::vector<MetricSample> ParseMetrics(absl::string_view text);

/// The table. Rates are those between two scrapes; with an empty `before` they are left out. Either part may be missing:
/// no capabilities (empty version) or no metrics.
std::string RenderTop(const Capabilities& capabilities, const std::vector<MetricSample>& before,
                      const std::vector<MetricSample>& now, double seconds_between);

/// Runs the command with what follows `hone verifier top`; returns the exit code.
int VerifierTop(const std::vector<std::string>& arguments);

}  // namespace hone::cli
