#include "trainer/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hone::trainer {

double LearningRate(const Schedule& s, int64_t step) {
  if (step < s.warmup_steps) return s.peak * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
  if (s.shape == Schedule::Shape::kConstant) return s.peak;
  const double span = static_cast<double>(std::max<int64_t>(1, s.total_steps - s.warmup_steps));
  const double at = std::min(1.0, static_cast<double>(step - s.warmup_steps) / span);
  return s.floor + (s.peak - s.floor) * 0.5 * (1 + std::cos(std::numbers::pi * at));
}

}  // namespace hone::trainer
