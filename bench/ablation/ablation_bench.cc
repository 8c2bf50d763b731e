// What each mechanism adds on this machine: the CPU loop with all four on and with each one off.
//
//   ablation_bench [--runs FOLDER] [--seeds 3] [--steps 40] [--variants all,no_retry] [--only-read] [--record]
//
// Each seed has one supervised policy (FOLDER/start-SEED) that all its variants continue (FOLDER/VARIANT-SEED). What is
// there already is not done again, and an interrupted run goes on. Held-out tasks are evaluated with two turns; figures pool
// the seeds, intervals are bootstrapped over tasks, differences are paired by task and seed. Shares do not depend on the
// load of the machine; speedups are paired ratios of processor time and hardly do.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/bootstrap.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/progress.h"
#include "base/results.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/subprocess.h"

namespace hone {
namespace {

constexpr int kSftSteps = 250;  // enough to be right half of the time: correctness can still rise
// On two idle cores; for the estimate alone.
constexpr double kSftSeconds = 30, kStepSeconds = 2, kEvaluationSeconds = 10;

struct Variant {
  const char* name;
  std::vector<std::string> overrides;
};

const std::vector<Variant>& Variants() {
  static const auto* const variants = new std::vector<Variant>{
      {"all", {}},
      {"no_primeecho", {"rewards.turns={name: single_score}"}},  // the best turn's score for all turns
      {"no_retry", {"rl.retry.enabled=false"}},
      {"no_mirrorpop", {"rl.filters.chain=[]"}},
      {"no_contrast", {"rl.exemplars.enabled=false"}},
  };
  return *variants;
}

struct Options {
  std::string runs = "runs/ablation";
  int seeds = 3;
  int steps = 40;
  std::vector<std::string> variants;
  bool only_read = false;
  bool record = false;
};

std::string FolderOfRun(const Options& options, const std::string& name, int seed) {
  return absl::StrCat(options.runs, "/", name, "-", seed);
}

std::string EvaluationOf(const std::string& folder) { return folder + "/evaluation_after.jsonl.zst"; }
bool Done(const std::string& folder) { return FileExists(folder + "/evaluation_after.json"); }

absl::Status Hone(std::vector<std::string> arguments) {
  SpawnOptions options;
  options.argv = {ProgramFolder() + "/../bin/hone"};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.pass_fds = {{2, 2}};
  HONE_ASSIGN_OR_RETURN(Child child, Child::Spawn(options));
  HONE_ASSIGN_OR_RETURN(const int code, child.Wait(SteadyTime::InfiniteFuture()));
  return code == 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat("hone ", arguments[0], " ended with ", code));
}

/// Runs `command` under `name`, or goes on with it.
absl::Status RunOnce(const Options& options, const std::string& name, int seed, std::vector<std::string> command) {
  const std::string folder = FolderOfRun(options, name, seed);
  if (Done(folder)) return absl::OkStatus();
  std::fprintf(stderr, "%s, seed %d\n", name.c_str(), seed);
  if (FileExists(folder + "/config.yaml")) command = {command[0], "--resume"};
  command.insert(command.end(), {"--runs", options.runs, "--name", absl::StrCat(name, "-", seed)});
  return Hone(std::move(command));
}

absl::Status RunStart(const Options& options, int seed) {
  return RunOnce(options, "start", seed,
                 {"quickstart", "--seed", absl::StrCat(seed), "--set", absl::StrCat("sft.steps=", kSftSteps), "--set",
                  "rl.steps=0", "--set", "evaluation.before=false", "--set", "evaluation.samples=16", "--set",
                  "evaluation.turns=2"});
}

absl::Status RunVariant(const Options& options, const Variant& variant, int seed) {
  std::vector<std::string> command = {"train", HONE_SOURCE_DIR "/bench/ablation/ablation.yaml",
                                      "--seed", absl::StrCat(seed),
                                      "--set", absl::StrCat("policy.start=", FolderOfRun(options, "start", seed)),
                                      "--set", absl::StrCat("rl.steps=", options.steps)};
  for (const std::string& override : variant.overrides) command.insert(command.end(), {"--set", override});
  return RunOnce(options, variant.name, seed, std::move(command));
}

// -------------------------------------------------------------------------------------------------------- figures

/// What one variant did on one held-out task: a number an episode, by seed.
struct TaskFigures {
  std::vector<TaskSamples> first_turn;  // [seeds] 1 or 0
  std::vector<TaskSamples> best_turn;
  std::vector<TaskSamples> speedup;     // of the first pass of an episode, over the scalar kernel
};
using Figures = std::map<std::string, TaskFigures>;  // by task

void AddEpisode(const Episode& episode, int seed_index, TaskFigures& figures) {
  bool best = false;
  for (const Turn& turn : episode.turns) {
    if (turn.verdict.status == VerdictStatus::kInfra) return;
    if (!turn.verdict.ok() || best) continue;
    best = true;
    const Timing* timing = turn.verdict.speed();
    if (timing != nullptr && timing->speedup.median > 0) figures.speedup[seed_index].push_back(timing->speedup.median);
  }
  if (episode.turns.empty()) return;
  figures.first_turn[seed_index].push_back(episode.turns.front().verdict.ok() ? 1 : 0);
  figures.best_turn[seed_index].push_back(best ? 1 : 0);
}

absl::StatusOr<Figures> ReadFigures(const Options& options, const std::string& name) {
  Figures figures;
  for (int seed = 1; seed <= options.seeds; ++seed) {
    const std::string path = EvaluationOf(FolderOfRun(options, name, seed));
    HONE_RETURN_IF_ERROR(ReadJournal(path, [&](const Group& group) {
                           TaskFigures& task = figures[group.task_id];
                           for (auto* samples : {&task.first_turn, &task.best_turn, &task.speedup}) {
                             samples->resize(options.seeds);
                           }
                           for (const Episode& episode : group.episodes) AddEpisode(episode, seed - 1, task);
                           return absl::OkStatus();
                         }).status());
  }
  return figures;
}

std::vector<TaskSamples> Pooled(const Figures& figures, std::vector<TaskSamples> TaskFigures::*which) {
  std::vector<TaskSamples> tasks;
  for (const auto& [id, task] : figures) {
    TaskSamples& all = tasks.emplace_back();
    for (const TaskSamples& seed : task.*which) all.insert(all.end(), seed.begin(), seed.end());
    if (all.empty()) tasks.pop_back();
  }
  return tasks;
}

/// Per task and seed the difference of the means of variant and reference.
std::vector<TaskSamples> Differences(const Figures& variant, const Figures& reference,
                                     std::vector<TaskSamples> TaskFigures::*which) {
  std::vector<TaskSamples> tasks;
  for (const auto& [id, task] : variant) {
    const auto other = reference.find(id);
    if (other == reference.end()) continue;
    TaskSamples& differences = tasks.emplace_back();
    for (size_t s = 0; s < (task.*which).size(); ++s) {
      const double difference = MeanOfTaskMeans({(task.*which)[s]}) - MeanOfTaskMeans({(other->second.*which)[s]});
      if (std::isfinite(difference)) differences.push_back(difference);
    }
    if (differences.empty()) tasks.pop_back();
  }
  return tasks;
}

struct Row {
  std::string name;
  Interval first_turn, best_turn, speedup;
  Interval first_turn_change, best_turn_change;  // against all four
};

Row RowOf(const std::string& name, const Figures& figures, const Figures& all) {
  Row row{name, {}, {}, {}, {}, {}};
  row.first_turn = BootstrapOverTasks(Pooled(figures, &TaskFigures::first_turn), MeanOfTaskMeans);
  row.best_turn = BootstrapOverTasks(Pooled(figures, &TaskFigures::best_turn), MeanOfTaskMeans);
  row.speedup = BootstrapOverTasks(Pooled(figures, &TaskFigures::speedup), GeometricMean);
  row.first_turn_change = BootstrapOverTasks(Differences(figures, all, &TaskFigures::first_turn), MeanOfTaskMeans);
  row.best_turn_change = BootstrapOverTasks(Differences(figures, all, &TaskFigures::best_turn), MeanOfTaskMeans);
  return row;
}

std::string Show(const Interval& i) { return absl::StrFormat("%.3f [%.3f, %.3f]", i.value, i.low, i.high); }
std::string Signed(const Interval& i) { return absl::StrFormat("%+.3f [%+.3f, %+.3f]", i.value, i.low, i.high); }

void Print(const std::vector<Row>& rows) {
  std::printf("%-14s %-22s %-25s %-22s %-25s %s\n", "variant", "first turn correct", "against all", "best turn correct",
              "against all", "speedup over scalar (emulated)");
  for (const Row& row : rows) {
    std::printf("%-14s %-22s %-25s %-22s %-25s %s\n", row.name.c_str(), Show(row.first_turn).c_str(),
                row.name == "all" ? "" : Signed(row.first_turn_change).c_str(), Show(row.best_turn).c_str(),
                row.name == "all" ? "" : Signed(row.best_turn_change).c_str(), Show(row.speedup).c_str());
  }
}

absl::Status Record(const std::vector<Row>& rows, const Options& options) {
  const std::string date = Today(), machine = MachineKind(), commit = CurrentCommit(HONE_SOURCE_DIR);
  const std::string command = ThisCommand(HONE_SOURCE_DIR);
  std::vector<BenchResult> results;
  for (const Row& row : rows) {
    const auto add = [&](const char* figure, const Interval& interval, const char* unit) {
      if (!std::isfinite(interval.value)) return;
      results.push_back({absl::StrCat("ablation.", row.name, ".", figure), interval.value,
                         absl::StrFormat("%s, 95 %% interval %.3f to %.3f, %d seeds", unit, interval.low, interval.high,
                                         options.seeds),
                         command, machine, date, commit});
    };
    add("first_turn_correct", row.first_turn, "share");
    add("best_turn_correct", row.best_turn, "share");
    add("speedup", row.speedup, "x over scalar, emulated");
    if (row.name == "all") continue;
    add("first_turn_change", row.first_turn_change, "share against all");
    add("best_turn_change", row.best_turn_change, "share against all");
  }
  return RecordResults(HONE_SOURCE_DIR "/bench/results.json", results);
}

// ------------------------------------------------------------------------------------------------------------ run

absl::StatusOr<std::vector<Variant>> Chosen(const Options& options) {
  std::vector<Variant> chosen;
  for (const Variant& variant : Variants()) {
    const auto named = std::find(options.variants.begin(), options.variants.end(), variant.name);
    if (options.variants.empty() || named != options.variants.end()) chosen.push_back(variant);
  }
  if (!options.variants.empty() && chosen.size() != options.variants.size()) {
    std::string names;
    for (const Variant& variant : Variants()) absl::StrAppend(&names, names.empty() ? "" : ", ", variant.name);
    return absl::InvalidArgumentError("--variants: known are " + names);
  }
  return chosen;
}

absl::Status RunAll(const Options& options, const std::vector<Variant>& variants) {
  double estimate = 0;
  int missing = 0;
  for (int seed = 1; seed <= options.seeds; ++seed) {
    if (!Done(FolderOfRun(options, "start", seed))) estimate += kSftSeconds + kEvaluationSeconds;
    for (const Variant& variant : variants) {
      if (Done(FolderOfRun(options, variant.name, seed))) continue;
      estimate += kStepSeconds * options.steps + kEvaluationSeconds;
      ++missing;
    }
  }
  std::fprintf(stderr, "%d runs to do, about %s on two idle cores\n", missing, HumanSeconds(estimate).c_str());
  const SteadyTime start = SteadyTime::Now();
  int done = 0;
  // Seed by seed, so that an early end leaves whole seeds.
  for (int seed = 1; seed <= options.seeds; ++seed) {
    HONE_RETURN_IF_ERROR(RunStart(options, seed));
    for (const Variant& variant : variants) {
      if (Done(FolderOfRun(options, variant.name, seed))) continue;
      HONE_RETURN_IF_ERROR(RunVariant(options, variant, seed));
      ++done;
      const double left = absl::ToDoubleSeconds(SteadyTime::Now() - start) / done * (missing - done);
      std::fprintf(stderr, "%d of %d runs, %s left\n", done, missing, HumanSeconds(left).c_str());
    }
  }
  return absl::OkStatus();
}

absl::Status Bench(const Options& options) {
  HONE_ASSIGN_OR_RETURN(const std::vector<Variant> variants, Chosen(options));
  if (!options.only_read) HONE_RETURN_IF_ERROR(RunAll(options, variants));
  HONE_ASSIGN_OR_RETURN(const Figures all, ReadFigures(options, "all"));
  HONE_ASSIGN_OR_RETURN(const Figures start, ReadFigures(options, "start"));
  std::vector<Row> rows = {RowOf("start", start, all)};
  for (const Variant& variant : variants) {
    HONE_ASSIGN_OR_RETURN(const Figures figures, ReadFigures(options, variant.name));
    rows.push_back(RowOf(variant.name, figures, all));
  }
  Print(rows);
  return options.record ? Record(rows, options) : absl::OkStatus();
}

}  // namespace
}  // namespace hone

int main(int argc, char** argv) {
  CLI::App app{"Trains with all mechanisms and with each one off, and compares them on held-out tasks."};
  hone::Options options;
  app.add_option("--runs", options.runs, "where the runs are kept")->capture_default_str();
  app.add_option("--seeds", options.seeds, "of every variant, from 1")->check(CLI::Range(1, 100))->capture_default_str();
  app.add_option("--steps", options.steps, "of reinforcement")->check(CLI::Range(1, 100000))->capture_default_str();
  app.add_option("--variants", options.variants, "of all, no_primeecho, no_retry, no_mirrorpop, no_contrast")->delimiter(',');
  app.add_flag("--only-read", options.only_read, "take the figures of runs that are there");
  app.add_flag("--record", options.record, "write bench/results.json");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = hone::Bench(options);
  if (!status.ok()) std::fprintf(stderr, "ablation_bench: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
