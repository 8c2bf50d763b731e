#pragma once

// Settings that `hone quickstart` and `hone train` share. All four mechanisms are on; each has its switch:
//
//   contrastive exemplars    rl.exemplars.enabled: false
//   buffered dynamic retry   rl.retry.enabled: false
//   MirrorPop                rl.filters.chain: []
//   PrimeEcho                rewards.turns: {name: single_score}

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/protocol.h"
#include "rollout/sampler/exemplar_store.h"
#include "rollout/sampler/retry_buffer.h"
#include "trainer/loss/filters/chain.h"

namespace hone::cli {

/// The store's defaults without the re-measure rule: an emulator's speedups are often large, and most tasks are new.
rollout::ExemplarConfig BelievedExemplars();

/// Of published methods: docs/train.md.
struct LossSettings {
  std::string objective = "ratio";
  std::string aggregation = "sequence_mean";
  double constant_length = 0;
  double dual_clip = 0;
  std::string kl_estimator = "k3";
  double entropy_coefficient = 0;
};
template <class F>
void Describe(F& f, LossSettings& c) {
  f.Value("objective", c.objective, OneOf{{"ratio", "sequence_ratio", "cispo"}},
          "ratio: each token's, clipped (GRPO, DAPO); sequence_ratio: the sequence's mean, clipped (GSPO); cispo: log-probs weighted by it");
  f.Value("aggregation", c.aggregation, OneOf{{"sequence_mean", "token_mean", "constant_length"}},
          "sequences count alike (GRPO); tokens do (DAPO); or a sequence is divided by a constant (Dr.GRPO)");
  f.Value("constant_length", c.constant_length, Range(0.0, 1e9), "tokens that aggregation constant_length divides by; 0: rl.max_tokens");
  f.Value("dual_clip", c.dual_clip, Range(0.0, 1e6), "bounds the loss of a token that got worse, as a ratio above 1; 0: no bound");
  if (c.dual_clip > 0 && c.dual_clip <= 1) f.Fail("dual_clip", "allowed 0 or above 1");
  f.Value("kl_estimator", c.kl_estimator, OneOf{{"k1", "k2", "k3"}}, "of rl.kl_coefficient's divergence");
  f.Value("entropy_coefficient", c.entropy_coefficient, Range(0.0, 100.0), "bonus for an undecided policy");
}

struct RlSettings {
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
  int64_t dynamic_sampling = 0;
  int64_t lag = 0;
  bool overlap = false;
  int64_t micro_batch_tokens = 8192;
  bool share_prefixes = true;
  double kl_coefficient = 0;
  LossSettings loss;
  bool stream = false;
  double max_seconds = 0;
  double patience_s = 300;
  double max_gap = 0;
  int64_t checkpoint_every = 10;
  std::string checkpoint_moments = "fp32";
  int64_t recorded_sequences = 8;
  rollout::RetryConfig retry;
  rollout::ExemplarConfig exemplars = BelievedExemplars();
  trainer::FilterChainConfig filters;
};
template <class F>
void Describe(F& f, RlSettings& c) {
  f.Value("steps", c.steps, Range<int64_t>(0, 1'000'000), "batches sampled and judged");
  f.Value("groups", c.groups, Range<int64_t>(1, 4096), "prompts of a step");
  f.Value("group_size", c.group_size, Range<int64_t>(2, 1024), "samples of a prompt");
  f.Value("max_tokens", c.max_tokens, Range<int64_t>(8, 32768), "tokens of an answer");
  f.Value("temperature", c.temperature, Range(0.01, 10.0), "of sampling while training");
  f.Value("learning_rate", c.learning_rate, Range(0.0, 1.0), "constant after a short warm-up");
  f.Value("clip_low", c.clip_low, Range(0.0, 1.0), "the ratio's lower clip is 1 - clip_low");
  f.Value("clip_high", c.clip_high, Range(0.0, 10.0), "the upper one 1 + clip_high");
  f.Value("named_share", c.named_share, Range(0.0, 1.0), "of generated prompts from the named train tasks");
  f.Value("turns", c.turns, Range<int64_t>(1, 16), "responses of an episode at most; a pass ends it");
  f.Value("contrast_share", c.contrast_share, Range(0.0, 1.0),
          "of the prompts of tasks with exemplars that show two of them");
  f.Value("dynamic_sampling", c.dynamic_sampling, Range<int64_t>(0, 1 << 20),
          "groups with a difference to learn from that make a batch, sampled over as many steps as that takes; 0: a step's groups do");
  f.Value("lag", c.lag, Range<int64_t>(0, 64),
          "steps that learning is behind sampling, as where both run at once; 0: on-policy");
  f.Value("overlap", c.overlap,
          "learn from a batch while the next one's verdicts are waited for; needs a lag of 1 or more and a verifier with a GPU of its own");
  if (c.overlap && c.lag == 0) f.Fail("overlap", "needs rl.lag of 1 or more");
  f.Value("micro_batch_tokens", c.micro_batch_tokens, Range<int64_t>(1, 1 << 26),
          "tokens of one forward and backward pass; bounds the learner's memory");
  f.Value("share_prefixes", c.share_prefixes, "on a GPU: learn from a group's samples with their prompt computed once");
  f.Value("kl_coefficient", c.kl_coefficient, Range(0.0, 100.0),
          "of the divergence from the model without its adapter; above 0 it is scored, too: one more forward pass");
  f.Section("loss", c.loss, "what a batch's tokens are trained by");
  f.Value("stream", c.stream,
          "verify an answer as soon as it is written, while others still are; where the verifier started for the run times on the "
          "GPU that computes, answers are built and screened meanwhile, and timed when all are written");
  f.Value("max_seconds", c.max_seconds, Range(0.0, 1e9),
          "from the program's start; a step that would not end by then is not begun: the run stops with a checkpoint; 0: no limit");
  f.Value("max_gap", c.max_gap, Range(0.0, 10.0),
          "mean distance of sampler's and learner's log-probs on a probe above which training is refused; 0: 1e-4, in bf16 0.15");
  f.Value("patience_s", c.patience_s, Range(1.0, 1e6), "seconds without progress after which the run says what it waits for");
  f.Section("retry", c.retry, "buffered dynamic retry");
  f.Section("exemplars", c.exemplars, "contrastive exemplars");
  f.Section("filters", c.filters, "off-policy filters of the learner");
  f.Value("checkpoint_every", c.checkpoint_every, Range<int64_t>(1, 1'000'000), "steps");
  f.Value("checkpoint_moments", c.checkpoint_moments, OneOf{{"fp32", "bf16"}},
          "of the optimiser in checkpoints; bf16 halves them, and a resumed run is then not the same to the bit");
  f.Value("recorded_sequences", c.recorded_sequences, Range<int64_t>(0, 1 << 20),
          "of a step whose log-probs go to log_probs.jsonl.zst, for hone lab noise-floor");
}

struct SamplingSettings {
  int64_t samples = 32;
  int64_t turns = 1;
  double temperature = 0.7;
};
template <class F>
void Describe(F& f, SamplingSettings& c) {
  f.Value("samples", c.samples, Range<int64_t>(1, 4096), "of each task");
  f.Value("turns", c.turns, Range<int64_t>(1, 16), "responses of an episode at most; a pass ends it");
  f.Value("temperature", c.temperature, Range(0.0, 10.0), "of sampling");
}

struct EvaluationSettings {
  bool before = true;
  bool after = true;
  SamplingSettings sampling;
};
template <class F>
void Describe(F& f, EvaluationSettings& c) {
  f.Value("before", c.before, "also before reinforcement");
  f.Value("after", c.after, "after it");
  Describe(f, c.sampling);
}

struct VerifierSettings {
  std::string endpoint;
  std::vector<std::string> devices = {"cpu"};
  int64_t build_slots = 2;
  int64_t lanes = 1;
  std::vector<std::string> options;
  std::string sandbox;
  std::string protocol = "quick";
  int64_t build_s = 0;
  int64_t run_s = 0;
  int64_t rounds = 0;
};
template <class F>
void Describe(F& f, VerifierSettings& c) {
  f.Value("endpoint", c.endpoint, "a running verifier (host:port or unix:/path; several of one farm with commas); empty starts one for this run");
  f.Value("devices", c.devices,
          "what it judges on: cpu, cuda, cuda:<n>; candidates are written for the first one, at an endpoint, too");
  if (c.devices.empty()) f.Fail("devices", "names no device");
  f.Value("build_slots", c.build_slots, Range<int64_t>(0, 1024), "compilers at a time, of the one started here; 0: one a core");
  f.Value("lanes", c.lanes, Range<int64_t>(0, 1024),
          "candidates timed at a time on the cpu, of the one started here; 0: as hone-verifier chooses");
  f.Value("options", c.options, "further settings of the one started here, as hone-verifier's --set takes them: screen_lanes=4");
  f.Value("sandbox", c.sandbox, OneOf{{"", "bubblewrap", "none"}},
          "what candidates run in, of the one started here; empty: $HONE_SANDBOX, else bubblewrap");
  f.Value("protocol", c.protocol, OneOf{ProtocolIds()}, "how candidates are checked and timed; rewards choose the baselines");
  f.Value("build_s", c.build_s, Range<int64_t>(0, 3600), "seconds that a candidate may compile; 0: as the protocol says");
  f.Value("run_s", c.run_s, Range<int64_t>(0, 3600), "seconds of checking and timing one; more is TIMEOUT; 0: as the protocol says");
  f.Value("rounds", c.rounds, Range<int64_t>(0, 1000), "timed rounds at most; 0: as the protocol says");
}

/// Whether the verifier started for this run times candidates on the GPU that `device` ("cuda", "cuda:<n>") names. Two processes
/// share a GPU by slices of some milliseconds: what runs beside a timing falsifies it, so nothing may.
bool TimesOnGpuOf(const std::string& device, const VerifierSettings& verifier);

}  // namespace hone::cli
