#pragma once

// `hone sft`: supervised fine-tuning on a JSON Lines data set, on one device or on the ranks that torchrun, srun or
// JobSet start. Leaves in the run's folder:
//
//   policy/                 an HF folder with the new weights (with an adapter: the model that it belongs to stays
//                           where it was)
//   adapter/                with lora.rank > 0: the adapter in PEFT's format, as of the newest checkpoint
//   checkpoint/sft/         where an interrupted run goes on
//   metrics.jsonl, events.out.tfevents.*    one record a step
//   sft.json                figures of the run: examples, steps, the held-out loss before and after

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/config.h"
#include "cli/train/model_settings.h"

namespace hone::cli {

struct ObjectiveSettings {
  std::string name = "plain";
  double tau = 0.1;
  double lambda = 1;
  int64_t window = 256;
};
template <class F>
void Describe(F& f, ObjectiveSettings& c) {
  f.Value("name", c.name, OneOf{{"plain", "cuset", "dft", "profit"}}, "how tokens are weighted");
  f.Value("tau", c.tau, Range(0.0, 0.999), "cuset, profit: surer tokens than this count");
  f.Value("lambda", c.lambda, Range(0.0, 1000.0), "cuset: further weight of kernel and launch tokens");
  f.Value("window", c.window, Range<int64_t>(1, 1 << 20), "cuset: tokens over which confidence is averaged");
}

struct SftConfig {
  int64_t seed = 1;
  int64_t threads = 0;
  std::string start;
  std::string data;
  double held_out = 0;
  int64_t max_length = 8192;
  int64_t epochs = 1;
  int64_t steps = 0;
  int64_t batch = 32;
  int64_t micro_batch_tokens = 16384;
  double learning_rate = 1e-5;
  double warmup = 0.03;
  std::string schedule = "cosine";
  double weight_decay = 0.01;
  double clip_norm = 1;
  int64_t checkpoint_every = 100;
  bool replicate_frozen = false;
  double patience_s = 300;
  std::string metrics;
  DeviceSettings device;
  LoraSettings lora;
  ObjectiveSettings objective;
};
template <class F>
void Describe(F& f, SftConfig& c) {
  f.Value("seed", c.seed, Range<int64_t>(0, int64_t{1} << 52), "of the order of examples and of the adapter");
  f.Value("threads", c.threads, Range<int64_t>(0, 1024), "of the model on the CPU; 0: one a core");
  f.Value("start", c.start, "an HF folder, a run's folder, or one checkpoint");
  f.Value("data", c.data, "JSON Lines: messages, prompt and response, or token ids");
  f.Value("held_out", c.held_out, Range(0.0, 0.5),
          "share of the examples, from the end of the file, that only measures");
  f.Value("max_length", c.max_length, Range<int64_t>(2, 1 << 24), "tokens; longer examples are left out and counted");
  f.Value("epochs", c.epochs, Range<int64_t>(1, 10'000), "times through the examples");
  f.Value("steps", c.steps, Range<int64_t>(0, 100'000'000), "optimiser steps; 0: what the epochs make");
  f.Value("batch", c.batch, Range<int64_t>(1, 1 << 20), "examples of a step, over all ranks");
  f.Value("micro_batch_tokens", c.micro_batch_tokens, Range<int64_t>(1, 1 << 26),
          "tokens of one forward and backward pass");
  f.Value("learning_rate", c.learning_rate, Range(0.0, 1.0), "at its peak");
  f.Value("warmup", c.warmup, Range(0.0, 1.0), "share of the steps in which the rate rises");
  f.Value("schedule", c.schedule, OneOf{{"constant", "cosine"}}, "of the rate after that");
  f.Value("weight_decay", c.weight_decay, Range(0.0, 10.0), "on matrices");
  f.Value("clip_norm", c.clip_norm, Range(0.0, 1e9), "of the global gradient; 0: none");
  f.Value("checkpoint_every", c.checkpoint_every, Range<int64_t>(1, 100'000'000), "steps");
  f.Value("replicate_frozen", c.replicate_frozen,
          "with an adapter on several ranks: the model stays whole on each, in place of spread over them: faster, for its memory");
  f.Value("patience_s", c.patience_s, Range(1.0, 1e6), "seconds without progress after which the run says what it waits for");
  f.Value("metrics", c.metrics, "host:port that serves the newest step's figures to Prometheus at /metrics, of the first rank; empty: none");
  f.Section("device", c.device, "where it runs");
  f.Section("lora", c.lora, "a low-rank adapter in place of all weights");
  f.Section("objective", c.objective, "what counts");
}

/// Runs to the end in `folder`. kCancelled: interrupted. `on_phase` hears what the run is doing, for tests that end it there.
absl::Status RunSft(const SftConfig& config, const std::string& folder, bool resume,
                    std::function<void(const std::string& what)> on_phase = {});

}  // namespace hone::cli
