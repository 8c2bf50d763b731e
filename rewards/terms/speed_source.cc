#include "rewards/terms/speed_source.h"

#include "absl/strings/str_cat.h"

namespace hone::rewards {
namespace {

constexpr char kFirst[] = "first";

OneOf BaselineWords() {
  OneOf words{{kFirst}};
  for (int i = 0; i < kBaselines; ++i) words.words.push_back(std::string(Name(static_cast<Baseline>(i))));
  return words;
}

}  // namespace

void SpeedSource::Describe(Fields& fields) {
  std::string baseline_word = baseline ? std::string(Name(*baseline)) : kFirst;
  fields.Value("baseline", baseline_word, BaselineWords(),
               "whose time the speedup is over; first: the protocol's first");
  baseline = ParseBaseline(baseline_word);
  std::string estimate = median ? "median" : "lower_bound";
  fields.Value("estimate", estimate, OneOf{{"lower_bound", "median"}}, "which point of the 95 % interval pays");
  median = estimate == "median";
}

const Speedup* SpeedSource::Find(const Outcome& outcome) const {
  const std::optional<Baseline> chosen = baseline ? baseline : outcome.first_baseline;
  if (!chosen) return nullptr;
  const Speedup& speedup = outcome.speedups[static_cast<int>(*chosen)];
  return speedup.measured() ? &speedup : nullptr;
}

std::vector<Baseline> SpeedSource::Named() const {
  return baseline ? std::vector<Baseline>{*baseline} : std::vector<Baseline>{};
}

double SpeedSource::Read(const Outcome& outcome) const {
  const Speedup* speedup = Find(outcome);
  if (speedup == nullptr) return 1;
  return median ? speedup->median : speedup->low;
}

std::string SpeedSource::InWords() const {
  return absl::StrCat(median ? "median" : "lower bound", " of the speedup over the ",
                      baseline ? absl::StrCat("baseline ", Name(*baseline)) : "protocol's first baseline");
}

}  // namespace hone::rewards
