#pragma once

// Settings of `hone quickstart`. The defaults are the recipe that docs/quickstart.md reports on.

#include <cstdint>
#include <string>

#include "base/config.h"
#include "cli/train/settings.h"
#include "rewards/compose/pipeline.h"

namespace hone::cli {

struct QuickstartModel {
  int64_t hidden_size = 128;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t intermediate_size = 384;
  int64_t vocabulary = 768;
  int64_t context = 1024;
};
template <class F>
void Describe(F& f, QuickstartModel& c) {
  f.Value("hidden_size", c.hidden_size, Range<int64_t>(16, 4096), "width of the residual stream");
  f.Value("layers", c.layers, Range<int64_t>(1, 64), "decoder layers");
  f.Value("heads", c.heads, Range<int64_t>(1, 64), "attention heads; hidden_size is a multiple");
  f.Value("intermediate_size", c.intermediate_size, Range<int64_t>(16, 16384), "width of the gated MLP");
  f.Value("vocabulary", c.vocabulary, Range<int64_t>(300, 65536), "tokens of the vocabulary trained on the demonstrations");
  f.Value("context", c.context, Range<int64_t>(64, 32768), "tokens of prompt and answer together");
}

struct QuickstartSft {
  int64_t steps = 700;
  int64_t batch_tokens = 2600;
  double learning_rate = 2e-3;
  int64_t warmup_steps = 40;
  double repair_share = 0.12;
  double contrast_share = 0.06;
};
template <class F>
void Describe(F& f, QuickstartSft& c) {
  f.Value("repair_share", c.repair_share, Range(0.0, 1.0), "of demonstrations that answer a failing kernel and its verdict");
  f.Value("contrast_share", c.contrast_share, Range(0.0, 1.0), "of demonstrations that follow two kernels of different speed");
  f.Value("steps", c.steps, Range<int64_t>(0, 1'000'000), "optimiser steps on demonstrations, none of them seen twice");
  f.Value("batch_tokens", c.batch_tokens, Range<int64_t>(64, 1 << 20), "tokens of a step");
  f.Value("learning_rate", c.learning_rate, Range(0.0, 1.0), "peak of the cosine schedule");
  f.Value("warmup_steps", c.warmup_steps, Range<int64_t>(0, 1'000'000), "steps to the peak");
}

/// Log-scaled speed against the scalar baseline, PrimeEcho over turns, GRPO over the group.
rewards::PipelineConfig QuickstartRewards();

struct QuickstartConfig {
  int64_t seed = 1;
  int64_t threads = 0;
  QuickstartModel model;
  QuickstartSft sft;
  RlSettings rl;
  EvaluationSettings evaluation;
  VerifierSettings verifier;
  rewards::PipelineConfig rewards = QuickstartRewards();
};
template <class F>
void Describe(F& f, QuickstartConfig& c) {
  f.Value("seed", c.seed, Range<int64_t>(0, int64_t{1} << 52), "of tasks, initial weights and sampling");
  f.Value("threads", c.threads, Range<int64_t>(0, 1024), "of the model; 0: one a core");
  f.Section("model", c.model, "the policy, trained from scratch");
  f.Section("sft", c.sft, "supervised phase on generated demonstrations");
  f.Section("rl", c.rl, "reinforcement phase on measured rewards");
  f.Section("evaluation", c.evaluation, "before and after, on held-out tasks");
  f.Section("verifier", c.verifier, "who builds, checks and times the candidates");
  f.Section("rewards", c.rewards, "from verdicts to advantages; hone lab explain says it in words");
}

}  // namespace hone::cli
