#pragma once

// The learning rate over the steps of a run. Pure.

#include <cstdint>

namespace hone::trainer {

struct Schedule {
  enum class Shape { kConstant, kCosine };
  Shape shape = Shape::kConstant;
  double peak = 1e-3;
  double floor = 0;          // where the cosine ends
  int64_t warmup_steps = 0;  // linear from peak / warmup_steps to peak
  int64_t total_steps = 1;   // the cosine's end, warm-up included
};

/// For step 0, 1, ...; past total_steps it stays at the floor.
double LearningRate(const Schedule& schedule, int64_t step);

}  // namespace hone::trainer
