#include "cli/train/settings.h"

namespace hone::cli {

rollout::ExemplarConfig BelievedExemplars() {
  rollout::ExemplarConfig config;
  config.bucket_width = 0.5;
  config.tau = 2;
  config.remeasure.absolute = 1e9;
  config.remeasure.over_best = 1e9;
  return config;
}

}  // namespace hone::cli
