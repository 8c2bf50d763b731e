#pragma once

// Settings of `hone train`.

#include <cstdint>

#include "base/config.h"
#include "cli/train/model_settings.h"
#include "cli/train/problems.h"
#include "cli/train/settings.h"
#include "cli/train/start.h"
#include "rewards/compose/pipeline.h"

namespace hone::cli {

/// Three turns, and the exemplar store's own rule for speedups that need a second measurement.
RlSettings TrainRl();

struct TrainConfig {
  int64_t seed = 1;
  int64_t threads = 0;
  std::string metrics;
  PolicySettings policy;
  DeviceSettings device;
  LoraSettings lora;
  EngineSettings engine;
  TaskSettings tasks;
  RlSettings rl = TrainRl();
  EvaluationSettings evaluation;
  VerifierSettings verifier;
  rewards::PipelineConfig rewards;  // MusaCoder's score, PrimeEcho, GRPO
};
template <class F>
void Describe(F& f, TrainConfig& c) {
  f.Value("seed", c.seed, Range<int64_t>(0, int64_t{1} << 52), "of tasks and sampling");
  f.Value("threads", c.threads, Range<int64_t>(0, 1024), "of the model; 0: one a core");
  f.Value("metrics", c.metrics, "host:port that serves the newest step's figures to Prometheus at /metrics; empty: none");
  f.Section("policy", c.policy, "what is trained");
  f.Section("device", c.device, "where it samples and learns");
  f.Section("lora", c.lora, "a low-rank adapter in place of all weights");
  f.Section("engine", c.engine, "how it samples");
  f.Section("tasks", c.tasks, "what it is trained on");
  f.Section("rl", c.rl, "reinforcement on measured rewards");
  f.Section("evaluation", c.evaluation, "before and after, on held-out tasks");
  f.Section("verifier", c.verifier, "who builds, checks and times the candidates");
  f.Section("rewards", c.rewards, "from verdicts to advantages; hone lab explain says it in words");
  if (TimesOnGpuOf(c.device.device, c.verifier)) {
    if (c.rl.stream) f.Fail("rl", "stream: answers would be written on the GPU that times candidates");
    if (c.rl.overlap) f.Fail("rl", "overlap: learning would run on the GPU that times candidates");
  }
}

}  // namespace hone::cli
