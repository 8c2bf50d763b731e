// Any text as what a device's checker and profiler print, among it what the candidate that they watch prints: evidence that
// is in bounds, finite and UTF-8, and that travels with a verdict.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/journal.h"
#include "base/strings.h"
#include "proto/codec.h"
#include "verifier/lane/tool_reports.h"

namespace {

void CheckProfile(const std::vector<hone::KernelProfile>& profile) {
  for (size_t i = 0; i < profile.size(); ++i) {
    const hone::KernelProfile& kernel = profile[i];
    for (const double value : {kernel.time_ns, kernel.bytes, kernel.flop}) {
      if (!std::isfinite(value) || value < 0) std::abort();
    }
    for (const double value : {kernel.share, kernel.occupancy, kernel.roofline}) {
      if (!(value >= 0 && value <= 1)) std::abort();
    }
    if (kernel.launches < 1 || (i > 0 && profile[i - 1].time_ns < kernel.time_ns)) std::abort();
  }
}

void CheckTravels(const hone::Verdict& verdict) {
  const auto read = hone::VerdictFromJson(hone::VerdictToJson(verdict));
  if (!read.ok() || read->profile.size() != verdict.profile.size() || read->sanitizer_report != verdict.sanitizer_report) std::abort();
  const auto travelled = hone::proto::Decode<hone::Verdict>(hone::proto::Encode(verdict));
  if (!travelled.ok() || travelled->profile != verdict.profile || travelled->sanitizer_report != verdict.sanitizer_report) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  hone::Verdict verdict;
  verdict.status = hone::VerdictStatus::kRuntime;
  for (const size_t limit : {size_t{40}, size_t{4000}}) {
    verdict.sanitizer_report = hone::verifier::TrimSanitizerReport(text, limit);
    if (verdict.sanitizer_report.size() > limit || hone::FirstNonUtf8(verdict.sanitizer_report) != absl::string_view::npos) std::abort();
  }
  if (auto profile = hone::verifier::ParseProfile(text); profile.ok()) {
    CheckProfile(*profile);
    verdict.profile = *std::move(profile);
  } else if (hone::FirstNonUtf8(profile.status().message()) != absl::string_view::npos) {
    std::abort();
  }
  CheckTravels(verdict);
  return 0;
}
