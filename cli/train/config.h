#pragma once

// Settings of `hone train`.

#include <cstdint>

#include "base/config.h"
#include "cli/train/problems.h"
#include "cli/train/sampled_policy.h"
#include "cli/train/settings.h"
#include "cli/train/workers_settings.h"
#include "rewards/compose/pipeline.h"

namespace hone::cli {

/// Three turns, and the exemplar store's own rule for speedups that need a second measurement.
RlSettings TrainRl();

struct TrainConfig : SampledPolicy {
  std::string metrics;
  LoraSettings lora;
  TaskSettings tasks;
  RlSettings rl = TrainRl();
  WorkersSettings workers;
  EvaluationSettings evaluation;
  rewards::PipelineConfig rewards;  // MusaCoder's score, PrimeEcho, GRPO
};
template <class F>
void Describe(F& f, TrainConfig& c) {
  Describe(f, static_cast<SampledPolicy&>(c));
  f.Value("metrics", c.metrics, "host:port that serves the newest step's figures to Prometheus at /metrics; empty: none");
  f.Section("lora", c.lora, "a low-rank adapter in place of all weights");
  f.Section("tasks", c.tasks, "what it is trained on");
  f.Section("rl", c.rl, "reinforcement on measured rewards");
  f.Section("workers", c.workers, "processes that sample for this run: hone worker");
  f.Section("evaluation", c.evaluation, "before and after, on held-out tasks");
  f.Section("rewards", c.rewards, "from verdicts to advantages; hone lab explain says it in words");
  if (!c.workers.listen.empty()) {
    if (c.rl.overlap) f.Fail("rl", "overlap: workers sample while this process learns as rl.lag allows");
  } else if (TimesOnGpuOf(c.device.device, c.verifier)) {
    if (c.rl.overlap) f.Fail("rl", "overlap: learning would run on the GPU that times candidates");
  }
}

}  // namespace hone::cli
