#pragma once

// Settings of `hone quickstart`. The defaults are the recipe that docs/quickstart.md reports on.

#include <cstdint>
#include <string>

#include "base/config.h"
#include "rewards/compose/pipeline.h"
#include "rollout/sampler/exemplar_store.h"
#include "rollout/sampler/retry_buffer.h"
#include "trainer/loss/filters/chain.h"

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

/// The store's defaults without the re-measure rule: an emulator's speedups are often large, and most tasks are new.
rollout::ExemplarConfig BelievedExemplars();

struct QuickstartRl {
  int64_t steps = 100;
  int64_t groups = 8;
  int64_t group_size = 8;
  int64_t max_tokens = 320;
  double temperature = 1.0;
  double learning_rate = 1e-4;
  double clip_low = 0.2;
  double clip_high = 0.28;
  double named_share = 0.15;
  int64_t turns = 1;
  double contrast_share = 0.5;
  int64_t checkpoint_every = 10;
  rollout::RetryConfig retry;
  rollout::ExemplarConfig exemplars = BelievedExemplars();
  trainer::FilterChainConfig filters;
};
template <class F>
void Describe(F& f, QuickstartRl& c) {
  f.Value("steps", c.steps, Range<int64_t>(0, 1'000'000), "optimiser steps on measured rewards");
  f.Value("groups", c.groups, Range<int64_t>(1, 4096), "prompts of a step");
  f.Value("group_size", c.group_size, Range<int64_t>(2, 1024), "samples of a prompt");
  f.Value("max_tokens", c.max_tokens, Range<int64_t>(8, 32768), "tokens of an answer");
  f.Value("temperature", c.temperature, Range(0.01, 10.0), "of sampling while training");
  f.Value("learning_rate", c.learning_rate, Range(0.0, 1.0), "constant after a short warm-up");
  f.Value("clip_low", c.clip_low, Range(0.0, 1.0), "the ratio's lower clip is 1 - clip_low");
  f.Value("clip_high", c.clip_high, Range(0.0, 10.0), "the upper one 1 + clip_high");
  f.Value("named_share", c.named_share, Range(0.0, 1.0), "of prompts from the named train tasks");
  f.Value("turns", c.turns, Range<int64_t>(1, 16), "responses of an episode at most; a pass ends it");
  f.Value("contrast_share", c.contrast_share, Range(0.0, 1.0),
          "of the prompts of tasks with exemplars that show two of them");
  f.Section("retry", c.retry, "buffered dynamic retry");
  f.Section("exemplars", c.exemplars, "contrastive exemplars");
  f.Section("filters", c.filters, "off-policy filters of the learner");
  f.Value("checkpoint_every", c.checkpoint_every, Range<int64_t>(1, 1'000'000), "steps");
}

struct QuickstartEvaluation {
  int64_t samples = 32;
  double temperature = 0.7;
};
template <class F>
void Describe(F& f, QuickstartEvaluation& c) {
  f.Value("samples", c.samples, Range<int64_t>(1, 4096), "of each held-out task");
  f.Value("temperature", c.temperature, Range(0.0, 10.0), "of sampling while evaluating");
}

struct QuickstartVerifier {
  std::string endpoint;
  int64_t build_slots = 2;
  int64_t lanes = 1;
  std::string sandbox;
};
template <class F>
void Describe(F& f, QuickstartVerifier& c) {
  f.Value("endpoint", c.endpoint, "a running verifier (host:port or unix:/path); empty starts one for this run");
  f.Value("build_slots", c.build_slots, Range<int64_t>(1, 1024), "compilers at a time, of the one started here");
  f.Value("lanes", c.lanes, Range<int64_t>(1, 1024), "candidates timed at a time, of the one started here");
  f.Value("sandbox", c.sandbox, OneOf{{"", "bubblewrap", "none"}},
          "what candidates run in, of the one started here; empty: $HONE_SANDBOX, else bubblewrap");
}

/// Log-scaled speed against the scalar baseline, PrimeEcho over turns, GRPO over the group.
rewards::PipelineConfig QuickstartRewards();

struct QuickstartConfig {
  int64_t seed = 1;
  int64_t threads = 0;
  QuickstartModel model;
  QuickstartSft sft;
  QuickstartRl rl;
  QuickstartEvaluation evaluation;
  QuickstartVerifier verifier;
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
