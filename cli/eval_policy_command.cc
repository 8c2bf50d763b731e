// `hone eval policy`: what a policy achieves on tasks that it was not trained on: Pass@1, share of tasks solved, fast_1 and
// geometric mean speedup, with bootstrap intervals over tasks. Leaves in the run's folder:
//
//   policy.jsonl.zst   every group sampled, with verdicts; an interrupted run goes on after it, and one resumed with more samples a
//                      task adds those that are missing
//   policy.json        the figures, and the tasks left out with their reasons
//   policy_<protocol>.jsonl.zst   with timed_again: right samples measured anew under that protocol, a group a task
//
// A sample's draws depend on the run's seed, the task and the sample's index alone (added samples: on how many there were, too):
// runs of equal seeds before and after training draw alike, whichever tasks they share.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/config.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/progress.h"
#include "base/protocol.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/task_suite.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/train/phases.h"
#include "cli/train/run_options.h"
#include "cli/train/sampled_policy.h"
#include "cli/train/setup.h"
#include "rollout/episode/evaluation.h"
#include "rollout/prompt/skeleton.h"
#include "rollout/sampler/random.h"

namespace hone::cli {
namespace {

struct EvaluatedTasks {
  std::string from = "suite";
  std::string split = "held_out";
  int64_t level = 0;
  int64_t limit = 0;
  int64_t max_bytes = int64_t{4} << 30;
};
template <class F>
void Describe(F& f, EvaluatedTasks& c) {
  f.Value("from", c.from, "suite: the tasks that ship; else a task file, folder or JSONL");
  f.Value("split", c.split, OneOf{{"train", "held_out", "all"}}, "which of them");
  f.Value("level", c.level, Range<int64_t>(0, 4), "KernelBench's; 0: any");
  f.Value("limit", c.limit, Range<int64_t>(0, 1 << 30), "tasks at most, the first of the random order that the seed decides; 0: all");
  f.Value("max_bytes", c.max_bytes, Range<int64_t>(1, int64_t{1} << 50), "of one call's tensors; larger tasks are left out");
}

/// Right samples measured once more, under protocols that take longer than an evaluation's.
struct TimedAgain {
  std::vector<std::string> protocols;
  int64_t samples = 1;
  int64_t max_seconds = 0;
};
template <class F>
void Describe(F& f, TimedAgain& c) {
  f.Value("protocols", c.protocols, "that right samples are also timed under: hone-v1, kernelbench-v0.1; empty: none");
  for (const std::string& id : c.protocols) {
    if (!ProtocolById(id).ok()) f.Fail("protocols", absl::StrCat(id, " is none; allowed ", absl::StrJoin(ProtocolIds(), ", ")));
  }
  f.Value("samples", c.samples, Range<int64_t>(1, 4096), "right samples of a task, the first ones");
  f.Value("max_seconds", c.max_seconds, Range<int64_t>(0, 1'000'000), "of each protocol: start no further task then; --resume goes on; 0: all");
}

struct EvalPolicyConfig : SampledPolicy {
  EvaluatedTasks tasks;
  SamplingSettings sampling = {.samples = 8};
  int64_t max_tokens = 1024;
  int64_t batch = 32;
  bool stream = false;
  int64_t max_seconds = 0;
  TimedAgain timed_again;

  EvalPolicyConfig() {
    verifier.build_s = 30;
    verifier.run_s = 10;
  }
};
template <class F>
void Describe(F& f, EvalPolicyConfig& c) {
  Describe(f, static_cast<SampledPolicy&>(c));
  f.Section("tasks", c.tasks, "on what");
  f.Section("sampling", c.sampling, "how each task is sampled");
  f.Value("max_tokens", c.max_tokens, Range<int64_t>(8, 32768), "tokens of an answer");
  f.Value("batch", c.batch, Range<int64_t>(1, 65536), "tasks sampled and verified together");
  f.Value("stream", c.stream, "verify an answer as soon as it is written; where the verifier has no GPU of its own, all but its timing");
  f.Value("max_seconds", c.max_seconds, Range<int64_t>(0, 1'000'000),
          "start no further batch after so many; --resume goes on; 0: to the end");
  f.Section("timed_again", c.timed_again, "right samples under other protocols");
}

struct LeftOut {
  std::string task, reason;
};

struct Admitted {
  std::vector<Problem> problems;
  std::vector<LeftOut> left_out;
};

// In a random order: whatever a run reaches in its time is a fair part.
std::vector<Task> Wanted(std::vector<Task> tasks, const EvaluatedTasks& settings, int64_t seed) {
  std::erase_if(tasks, [&](const Task& task) {
    return (settings.split != "all" && settings.split != Name(task.split)) || (settings.level > 0 && task.level != settings.level);
  });
  rollout::SplitMix random(static_cast<uint64_t>(seed));
  for (size_t i = tasks.size(); i > 1; --i) std::swap(tasks[i - 1], tasks[random.Below(static_cast<int64_t>(i))]);
  if (settings.limit > 0) tasks.resize(std::min(tasks.size(), static_cast<size_t>(settings.limit)));
  return tasks;
}

/// Tasks whose candidates have a typed entry point and whose tensors are not too large.
absl::StatusOr<Admitted> Admit(const EvalPolicyConfig& config, verifier::Client& client) {
  HONE_ASSIGN_OR_RETURN(std::vector<Task> tasks, LoadTasks(config.tasks.from == "suite" ? SuiteFolder() : config.tasks.from));
  tasks = Wanted(std::move(tasks), config.tasks, config.seed);
  Admitted admitted;
  Progress progress("entry points", static_cast<int64_t>(tasks.size()));
  for (size_t i = 0; i < tasks.size(); ++i) {
    progress.Update(static_cast<int64_t>(i) + 1, tasks[i].id);
    const absl::StatusOr<Signature> signature = client.DescribeTask(tasks[i]);
    if (absl::IsInvalidArgument(signature.status())) {
      admitted.left_out.push_back({tasks[i].id, std::string(signature.status().message())});
      continue;
    }
    HONE_RETURN_IF_ERROR(signature.status());
    int64_t bytes = 0;
    for (const TensorArgument& tensor : signature->tensors) bytes += tensor.spec.Bytes();
    // Another timed shape has another size; the task's author chose it.
    if (tasks[i].timing_gpu.empty() && bytes > config.tasks.max_bytes) {
      admitted.left_out.push_back({tasks[i].id, absl::StrCat("a call's tensors take ", bytes, " bytes")});
      continue;
    }
    admitted.problems.push_back({tasks[i], rollout::Skeleton(*signature)});
  }
  progress.Finish();
  return admitted;
}

class PolicyEvaluation {
 public:
  PolicyEvaluation(const EvalPolicyConfig& config, RolloutParts parts, RunFolder& folder)
      : config_(config), parts_(std::move(parts)), folder_(folder) {}

  absl::Status Run(const Admitted& admitted) {
    HONE_RETURN_IF_ERROR(ReadDone());
    HONE_ASSIGN_OR_RETURN(journal_, JournalWriter::Open(folder_.Path("policy.jsonl.zst")));
    std::map<int64_t, std::vector<const Problem*>> open;  // by samples that they have
    for (const Problem& problem : admitted.problems) {
      const int64_t has = Samples(problem.task.id);
      if (has < config_.sampling.samples) open[has].push_back(&problem);
    }
    const SteadyTime start = SteadyTime::Now();
    Progress progress("evaluate", static_cast<int64_t>(admitted.problems.size()));
    for (const auto& [has, problems] : open) {
      for (size_t first = 0; first < problems.size(); first += static_cast<size_t>(config_.batch)) {
        HONE_RETURN_IF_ERROR(Interrupted());
        if (config_.max_seconds > 0 && SteadyTime::Now() - start > absl::Seconds(config_.max_seconds)) break;
        const size_t count = std::min(static_cast<size_t>(config_.batch), problems.size() - first);
        HONE_RETURN_IF_ERROR(Batch({problems.data() + first, count}, has));
        progress.Update(Complete(admitted), absl::StrFormat("Pass@1 %.3f", rollout::Evaluate(groups_).correct_rate.value));
      }
    }
    progress.Finish();
    HONE_RETURN_IF_ERROR(WriteFigures(admitted));
    for (const std::string& protocol : config_.timed_again.protocols) HONE_RETURN_IF_ERROR(TimeAgain(admitted, protocol));
    return config_.timed_again.protocols.empty() ? absl::OkStatus() : WriteFigures(admitted);
  }

 private:
  absl::Status ReadDone() {
    HONE_ASSIGN_OR_RETURN(groups_, ReadGroups(folder_.Path("policy.jsonl.zst")));
    for (const Group& group : groups_) samples_[group.task_id] += static_cast<int64_t>(group.episodes.size());
    return absl::OkStatus();
  }

  int64_t Samples(const std::string& task_id) const {
    const auto found = samples_.find(task_id);
    return found == samples_.end() ? 0 : found->second;
  }

  // Tasks that have all their samples.
  int64_t Complete(const Admitted& admitted) const {
    return std::count_if(admitted.problems.begin(), admitted.problems.end(),
                         [&](const Problem& problem) { return Samples(problem.task.id) >= config_.sampling.samples; });
  }

  static absl::StatusOr<std::vector<Group>> ReadGroups(const std::string& path) {
    std::vector<Group> groups;
    if (!FileExists(path)) return groups;
    HONE_RETURN_IF_ERROR(ReadJournal(path, [&](const Group& group) {
                           groups.push_back(group);
                           return absl::OkStatus();
                         }).status());
    return groups;
  }

  // The group's first right samples alone.
  static Group RightOf(const Group& group, int64_t samples) {
    Group right = group;
    std::erase_if(right.episodes, [](const Episode& episode) { return episode.turns.empty() || !episode.turns[0].verdict.ok(); });
    right.episodes.resize(std::min(right.episodes.size(), static_cast<size_t>(samples)));
    return right;
  }

  /// One task's right samples at a time: a run that is cut has whole tasks.
  absl::Status TimeAgain(const Admitted& admitted, const std::string& id) {
    const std::string path = folder_.Path(absl::StrCat("policy_", id, ".jsonl.zst"));
    std::vector<Group>& timed = again_[id];
    HONE_ASSIGN_OR_RETURN(timed, ReadGroups(path));
    std::set<std::string> done;
    for (const Group& group : timed) done.insert(group.task_id);
    HONE_ASSIGN_OR_RETURN(const auto journal, JournalWriter::Open(path));
    VerifyRequest request;
    HONE_ASSIGN_OR_RETURN(request.protocol, ProtocolById(id));
    request.protocol.baselines = {Baseline::kEager};
    request.use_cache = false;
    const SteadyTime start = SteadyTime::Now();
    const absl::Duration limit = absl::Seconds(config_.timed_again.max_seconds);
    Progress progress(id, static_cast<int64_t>(groups_.size()));
    for (size_t g = 0; g < groups_.size(); ++g) {
      HONE_RETURN_IF_ERROR(Interrupted());
      if (config_.timed_again.max_seconds > 0 && SteadyTime::Now() - start > limit) break;
      progress.Update(static_cast<int64_t>(g) + 1);
      Group right = RightOf(groups_[g], config_.timed_again.samples);
      const auto problem = std::find_if(admitted.problems.begin(), admitted.problems.end(),
                                        [&](const Problem& p) { return p.task.id == groups_[g].task_id; });
      if (right.episodes.empty() || done.count(right.task_id) > 0 || problem == admitted.problems.end()) continue;
      request.task = problem->task;
      for (Episode& episode : right.episodes) {
        request.candidate = {parts_.verify.format, parts_.verify.backend, episode.turns[0].source};
        request.trace_id = absl::StrCat(episode.id, "/", id);
        HONE_ASSIGN_OR_RETURN(episode.turns[0].verdict, parts_.client->Verify(request));
      }
      HONE_RETURN_IF_ERROR(journal->Append(right));
      HONE_RETURN_IF_ERROR(journal->Sync());
      done.insert(right.task_id);
      timed.push_back(std::move(right));
    }
    progress.Finish();
    return absl::OkStatus();
  }

  /// The samples that tasks which have `has` lack: further ones are another group, with draws of its own.
  absl::Status Batch(absl::Span<const Problem* const> problems, int64_t has) {
    EpisodeSettings episodes;
    episodes.group_size = config_.sampling.samples - has;
    episodes.turns = config_.sampling.turns;
    episodes.max_tokens = config_.max_tokens;
    episodes.temperature = config_.sampling.temperature;
    episodes.stream = config_.stream;
    rollout::EpisodeDriver driver = MakeDriver(parts_, episodes);
    std::vector<rollout::GroupRequest> requests;
    for (const Problem* problem : problems) {
      const std::string id = has == 0 ? problem->task.id : absl::StrCat(problem->task.id, "+", has);
      rollout::GroupRequest request{id, problem->task, {}, false, {}};
      HONE_ASSIGN_OR_RETURN(request.prompt_ids, parts_.prompter->TaskPrompt(*problem));
      requests.push_back(std::move(request));
    }
    HONE_ASSIGN_OR_RETURN(const std::vector<Group> groups, driver.Run(requests, SamplingSeed(config_.seed, -1)));
    seconds_["generate"] += driver.seconds().generate;
    seconds_["verify"] += driver.seconds().verify;
    for (const Group& group : groups) {
      HONE_RETURN_IF_ERROR(journal_->Append(group));
      samples_[group.task_id] += static_cast<int64_t>(group.episodes.size());
    }
    groups_.insert(groups_.end(), groups.begin(), groups.end());
    return journal_->Sync();
  }

  absl::Status WriteFigures(const Admitted& admitted) {
    const rollout::Evaluation evaluation = rollout::Evaluate(groups_);
    nlohmann::json json = nlohmann::json::parse(rollout::ToJson(evaluation));
    const size_t complete = static_cast<size_t>(Complete(admitted));
    json["complete"] = complete == admitted.problems.size();
    json["samples_per_task"] = config_.sampling.samples;
    json["temperature"] = config_.sampling.temperature;
    json["seed"] = config_.seed;
    json["seconds"] = seconds_;
    for (const auto& [id, groups] : again_) {
      json["timed_again"][id] = nlohmann::json::parse(rollout::ToJson(rollout::Evaluate(groups)));
    }
    json["left_out"] = nlohmann::json::array();
    for (const LeftOut& out : admitted.left_out) json["left_out"].push_back({{"task", out.task}, {"reason", out.reason}});
    HONE_RETURN_IF_ERROR(WriteFileAtomically(folder_.Path("policy.json"), json.dump(2) + "\n"));
    std::fputs(rollout::ToText(evaluation).c_str(), stdout);
    absl::PrintF("%d tasks left out, %d not reached\n", admitted.left_out.size(), admitted.problems.size() - complete);
    return absl::OkStatus();
  }

  const EvalPolicyConfig& config_;
  RolloutParts parts_;
  RunFolder& folder_;
  std::unique_ptr<JournalWriter> journal_;
  std::map<std::string, int64_t> samples_;  // by task
  std::vector<Group> groups_;
  std::map<std::string, std::vector<Group>> again_;  // by protocol
  std::map<std::string, double> seconds_ = {{"generate", 0}, {"verify", 0}};
};

absl::Status Execute(const RunOptions& options) {
  HONE_ASSIGN_OR_RETURN(const std::string path, FolderOfRun(options, "eval"));
  EvalPolicyConfig config;
  HONE_RETURN_IF_ERROR(ReadRunConfig(options, path, config));
  if (options.print_config) {
    std::fputs(ToYaml(config).c_str(), stdout);
    return absl::OkStatus();
  }
  HONE_ASSIGN_OR_RETURN(PolicySetup setup, PolicySetup::Create(config.policy, {config.device, {}, config.engine},
                                                               config.threads, config.seed));
  HONE_ASSIGN_OR_RETURN(RunFolder folder, RunFolder::Create(path, ToYaml(config), options.resume));
  WatchForInterrupt();
  TaskSettings generated;  // which tasks is decided here
  generated.from = "generated";
  HONE_RETURN_IF_ERROR(setup.Connect(config.verifier, generated, /*named_share=*/0, folder.Path("verifier.log")));
  RolloutParts parts = setup.Parts({Baseline::kEager});
  HONE_ASSIGN_OR_RETURN(const Admitted admitted, Admit(config, *parts.client));
  if (admitted.problems.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("tasks: ", config.tasks.from, " has no task of split ", config.tasks.split,
                                                   " with an entry point"));
  }
  PolicyEvaluation evaluation(config, std::move(parts), folder);
  return folder.Timed("evaluate", [&] { return evaluation.Run(admitted); });
}

}  // namespace

void AddEvalPolicy(CLI::App& eval, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = eval.add_subcommand("policy", "What a policy achieves on tasks: Pass@1, fast_1 and speedups with intervals");
  command->add_option("config", options->config, "YAML settings; --print-config shows all of them");
  AddRunOptions(*command, *options);
  command->footer("Example:\n  hone eval policy --name before --set policy.start=models/Qwen2.5-Coder-1.5B-Instruct\n"
                  "  hone eval policy --name kb1 --set policy.start=models/M --set tasks.from=kernelbench.jsonl --set tasks.split=all "
                  "--set tasks.level=1");
  command->callback([options, &action] { action = [options] { return Report(Execute(*options)); }; });
}

}  // namespace hone::cli
