#pragma once

// The phases that `hone quickstart` and `hone train` are made of. Each leaves its files in the run's folder:
//
//   verifier.log                 of the verifier started for the run
//   journal.jsonl.zst            every group of the reinforcement phase, written before it is trained on
//   log_probs.jsonl.zst          sampler's and learner's log-probs of some sequences a step (hone lab noise-floor)
//   exemplars.db                 the exemplar store
//   checkpoint/rl/               where an interrupted run goes on
//   metrics.jsonl, events.out.tfevents.*      one record a step
//   evaluation_before.jsonl.zst, _after, .json  held-out groups and their figures
//   phases.json                  seconds of each phase

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file.h"
#include "base/metrics.h"
#include "base/metrics_page.h"
#include "base/steady_time.h"
#include "cli/train/episodes.h"
#include "cli/train/prompter.h"
#include "cli/train/settings.h"
#include "cli/train/worker_groups.h"
#include "policy/model/decoder.h"
#include "rewards/compose/pipeline.h"
#include "trainer/comm/communicator.h"
#include "trainer/loss/policy_loss.h"
#include "verifier/client/client.h"
#include "verifier/client/local_server.h"

namespace hone::cli {

/// After this, Ctrl-C and SIGTERM make Interrupted() kCancelled, and the flag that comes back true, in place of ending the
/// program.
const std::atomic<bool>& WatchForInterrupt();
absl::Status Interrupted();

/// The folder of one run, and the clock of its phases.
class RunFolder {
 public:
  /// Makes `path`, keeps other processes off it as long as the object lives, and writes config.yaml. kAlreadyExists: it holds a
  /// run that came to something, and `resume` is false. kNotFound: nothing to resume. kFailedPrecondition: another process is at work in it.
  static absl::StatusOr<RunFolder> Create(const std::string& path, const std::string& config_yaml, bool resume);
  /// The same folder for the other ranks of the job that made it; they leave phases.json to the first.
  static RunFolder Join(const std::string& path) { return RunFolder(path); }

  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }

  /// Does the work and adds its seconds to phases.json. kCancelled: interrupted before.
  absl::Status Timed(const std::string& phase, const std::function<absl::Status()>& work);

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
  UniqueFd lock_;  // while it is held, no other process works in the folder
  bool first_ = false;
  std::map<std::string, double> seconds_;
};

/// On settings' `metrics`; null where that is empty. Errors of MetricsPage::Serve.
absl::StatusOr<std::unique_ptr<MetricsPage>> ServeMetrics(const std::string& address);

struct RunVerifier {
  std::unique_ptr<verifier::LocalServer> server;  // null: somebody else's
  std::unique_ptr<verifier::Client> client;
  Capabilities capabilities;
};
/// Connects to settings.endpoint, or starts a verifier that logs to `log_path`. Errors of both; the verifier answers
/// when this returns. kInvalidArgument: it does not judge on settings.devices[0].
absl::StatusOr<RunVerifier> StartVerifier(const VerifierSettings& settings, const std::string& log_path);

/// How candidates are verified with these baselines.
rollout::VerifyTemplate VerifyWith(const VerifierSettings& settings, std::vector<Baseline> baselines);

/// What `settings` train a batch's tokens by.
trainer::PolicyLossOptions LossOf(const RlSettings& settings);

/// What the reinforcement phase works with; borrowed.
struct Reinforcement {
  const RlSettings& settings;
  const rewards::PipelineConfig& rewards;
  RolloutParts parts;  // parts.verify gets the baselines that the pipeline reads; parts.on_phase hears each phase as it begins
  policy::Decoder& decoder;
  MetricsWriter& metrics;
  RunFolder& folder;
  SteadyTime started;                    // of the program
  bool offload_optimizer = false;
  const WorkersPlan* workers = nullptr;  // null: this process samples
  trainer::Communicator* ranks = nullptr;  // that learn together; this is the first of them, and workers sample; null: alone
  std::function<absl::Status()> on_checkpoint;  // called when one is on the disk; may be empty
  /// Once, after the last step, while the weights are whole; may be empty.
  std::function<absl::Status()> at_end;
};
/// Samples, rewards and learns for settings.steps steps, going on from the newest checkpoint of the folder where there is
/// one. kFailedPrecondition: the self-test found a side that is off: the verifier, the engine or the learner. kCancelled:
/// interrupted.
/// False: stopped before a step that would have ended later than settings.max_seconds after `started`; the folder has a
/// checkpoint of the last step and can be resumed.
absl::StatusOr<bool> Reinforce(const Reinforcement& run);

/// The part of the other ranks.
absl::Status FollowReinforcement(const RlSettings& settings, policy::Decoder& decoder, RunFolder& folder,
                                 bool offload_optimizer, trainer::Communicator& ranks);

/// Whether engine and decoder mean the same by a log-probability: kFailedPrecondition says which side is wrong.
absl::Status TestSampler(const RlSettings& settings, rollout::Engine& engine, policy::Decoder& decoder);

/// Samples every problem and writes <name>.jsonl.zst, the groups, and <name>.json, their figures. Goes on where the journal
/// ends; nothing is measured twice. Equal seeds sample alike whatever `name` is. As many problems are under way at a time as
/// fill `running` samples; settings do not change with it.
absl::Status SampleProblems(const SamplingSettings& settings, int64_t max_tokens, const std::vector<Problem>& problems,
                            RolloutParts parts, const std::string& name, RunFolder& folder, int64_t running = 1);

}  // namespace hone::cli
