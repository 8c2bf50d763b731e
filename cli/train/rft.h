#pragma once

// `hone rft`: makes a data set for rejection fine-tuning. A policy answers each task several times, a verifier (started
// here, or a farm's endpoint) judges the answers, the right ones are clustered by implementation and some are drawn
// from the clusters. `hone sft` then trains on the result. Leaves in the run's folder:
//
//   journal.jsonl.zst   every group sampled, with verdicts; an interrupted run goes on after it
//   dataset.jsonl       one drawn answer a line: exact ids, texts, cluster, speedup and provenance; made anew from the
//   journal
//   rft.json            figures: tasks, samples, right ones, clusters, lines

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/config.h"
#include "cli/train/problems.h"
#include "cli/train/sampled_policy.h"

namespace hone::cli {

struct DrawSettings {
  int64_t per_task = 4;
  double similarity = 0.6;
  double min_speedup = 0;
};
template <class F>
void Describe(F& f, DrawSettings& c) {
  f.Value("per_task", c.per_task, Range<int64_t>(1, 4096), "answers a task, taken from its clusters in turn");
  f.Value("similarity", c.similarity, Range(0.0, 1.0),
          "of the code's shingles from which two answers are one implementation");
  f.Value("min_speedup", c.min_speedup, Range(0.0, 1000.0),
          "lower bound of the speedup over any baseline; slower answers are left out; 0: all right ones stay");
}

struct RftConfig : SampledPolicy {
  int64_t rounds = 1;
  int64_t tasks_per_round = 0;
  int64_t samples = 16;
  int64_t max_tokens = 1024;
  double temperature = 1.0;
  double named_share = 0.15;
  TaskSettings tasks;
  DrawSettings draw;
};
template <class F>
void Describe(F& f, RftConfig& c) {
  Describe(f, static_cast<SampledPolicy&>(c));
  f.Value("rounds", c.rounds, Range<int64_t>(1, 1'000'000), "batches of tasks");
  f.Value("tasks_per_round", c.tasks_per_round, Range<int64_t>(0, 65536), "0: 8");
  f.Value("samples", c.samples, Range<int64_t>(1, 4096), "answers to a task");
  f.Value("max_tokens", c.max_tokens, Range<int64_t>(8, 1 << 20), "tokens of an answer");
  f.Value("temperature", c.temperature, Range(0.01, 10.0), "of sampling");
  f.Value("named_share", c.named_share, Range(0.0, 1.0), "of generated prompts from the named train tasks");
  f.Section("tasks", c.tasks, "what is asked; held-out tasks never are");
  f.Section("draw", c.draw, "which right answers are kept");
}

/// Runs to the end in `folder`. kCancelled: interrupted.
absl::Status RunRft(const RftConfig& config, const std::string& folder, bool resume);

struct RftFigures {
  int64_t groups = 0, tasks = 0, samples = 0, right = 0, infra = 0, clusters = 0, lines = 0;
};
/// Writes `path` out of the groups of a journal: first turns whose verdict is OK, those of a task together. `origin`
/// goes into each line's provenance.
absl::StatusOr<RftFigures> WriteRftDataset(const std::string& journal, const std::string& path,
                                           const DrawSettings& draw, int64_t seed, const std::string& origin);

}  // namespace hone::cli
