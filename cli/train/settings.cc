#include "cli/train/settings.h"

#include <algorithm>

namespace hone::cli {

rollout::ExemplarConfig BelievedExemplars() {
  rollout::ExemplarConfig config;
  config.bucket_width = 0.5;
  config.tau = 2;
  config.remeasure.absolute = 1e9;
  config.remeasure.over_best = 1e9;
  return config;
}

bool TimesOnGpuOf(const std::string& device, const VerifierSettings& verifier) {
  if (!verifier.endpoint.empty() || device.rfind("cuda", 0) != 0) return false;
  const std::string numbered = device == "cuda" ? "cuda:0" : device;
  return std::any_of(verifier.devices.begin(), verifier.devices.end(),
                     [&](const std::string& timed) { return timed == "cuda" || timed == numbered; });
}

}  // namespace hone::cli
