// `hone lab`: studies rewards on recorded episodes, without a GPU and without torch.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "rewards/lab/explain.h"
#include "rewards/lab/lab_report.h"
#include "rewards/lab/pipelines.h"
#include "rewards/lab/records.h"
#include "rewards/lab/replay.h"
#include "rewards/part_table.h"
#include "trainer/loss/filters/noise_floor.h"
#include "trainer/loss/filters/sequence_masks.h"
#include "trainer/simulate/sim_report.h"

namespace hone::cli {
namespace {

using rewards::CandidateCsv;
using rewards::LabGroup;
using rewards::LabResult;
using rewards::NamedPipeline;
using rewards::Pipeline;
using rewards::ReadOptions;
using rewards::ReadSummary;
using rewards::Replay;
using rewards::Sweep;
using rewards::SweepRange;

// ---- replay ----

struct ReplayArguments {
  std::vector<std::string> files;
  std::vector<std::string> configs;
  std::vector<std::string> overrides;
  std::vector<std::string> sweeps;
  std::string out;
  int64_t batch_groups = 64;
  bool candidates = false;
  ReadOptions read;
};

/// "lab/strict.yaml" -> "strict".
std::string Stem(const std::string& path) {
  const size_t begin = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  const size_t end = path.rfind('.');
  return path.substr(begin, end == std::string::npos || end <= begin ? std::string::npos : end - begin);
}

absl::Status AddSweeps(const ReplayArguments& arguments, std::vector<NamedPipeline>& pipelines,
                       std::vector<SweepRange>& ranges) {
  const std::string config = arguments.configs.empty() ? "" : arguments.configs.front();
  for (const std::string& text : arguments.sweeps) {
    HONE_ASSIGN_OR_RETURN(Sweep sweep, rewards::ParseSweep(text));
    HONE_ASSIGN_OR_RETURN(std::vector<NamedPipeline> swept,
                          rewards::SweepPipelines(config, arguments.overrides, sweep));
    ranges.push_back({std::move(sweep), pipelines.size()});
    for (NamedPipeline& named : swept) pipelines.push_back(std::move(named));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NamedPipeline>> LoadPipelines(const ReplayArguments& arguments) {
  std::vector<NamedPipeline> pipelines;
  if (arguments.configs.empty()) {
    HONE_ASSIGN_OR_RETURN(Pipeline pipeline, rewards::LoadPipeline("", arguments.overrides));
    pipelines.push_back({"default", std::move(pipeline)});
  }
  for (const std::string& path : arguments.configs) {
    HONE_ASSIGN_OR_RETURN(Pipeline pipeline, rewards::LoadPipeline(path, arguments.overrides));
    pipelines.push_back({Stem(path), std::move(pipeline)});
  }
  return pipelines;
}

absl::Status RunReplay(const ReplayArguments& arguments) {
  HONE_ASSIGN_OR_RETURN(std::vector<NamedPipeline> pipelines, LoadPipelines(arguments));
  std::vector<SweepRange> ranges;
  HONE_RETURN_IF_ERROR(AddSweeps(arguments, pipelines, ranges));
  std::unique_ptr<CandidateCsv> csv;
  if (!arguments.out.empty()) HONE_RETURN_IF_ERROR(MakeFolders(arguments.out));
  if (arguments.candidates) {
    HONE_ASSIGN_OR_RETURN(csv, CandidateCsv::Create(arguments.out + "/candidates.csv", pipelines));
  }
  std::function<void(const rewards::CandidateRow&)> on_candidate;
  if (csv != nullptr) on_candidate = [&csv](const rewards::CandidateRow& row) { csv->Add(row); };
  Replay replay(std::move(pipelines), arguments.batch_groups, on_candidate);
  Progress progress("replay");
  int64_t episodes = 0;
  absl::StatusOr<ReadSummary> read = rewards::ReadGroups(arguments.files, arguments.read, [&](LabGroup&& group) {
    episodes += static_cast<int64_t>(group.outcomes.size());
    replay.Add(std::move(group));
    progress.Update(episodes, "episodes");
    return absl::OkStatus();
  });
  HONE_RETURN_IF_ERROR(read.status());
  replay.Finish();
  progress.Finish(absl::StrCat(episodes, " episodes"));
  const LabResult result = rewards::MakeResult(replay, *std::move(read), arguments.files, std::move(ranges));
  std::fputs(rewards::ResultText(result).c_str(), stdout);
  if (csv != nullptr) HONE_RETURN_IF_ERROR(csv->Finish());
  if (arguments.out.empty()) return absl::OkStatus();
  HONE_RETURN_IF_ERROR(WriteFileAtomically(arguments.out + "/summary.csv", rewards::ResultCsv(result)));
  HONE_RETURN_IF_ERROR(WriteFileAtomically(arguments.out + "/report.html", rewards::ResultHtml(result)));
  absl::PrintF("wrote %s/report.html\n", arguments.out);
  return absl::OkStatus();
}

void AddReplay(CLI::App& lab, Action& action) {
  auto arguments = std::make_shared<ReplayArguments>();
  CLI::App* command = lab.add_subcommand("replay", "Replay recorded episodes through reward pipelines");
  command->footer(
      "Example:\n  hone lab replay runs/quick/journal.jsonl.zst -p mine.yaml --sweep turns.alpha=0:1:0.25 --out lab");
  command
      ->add_option("files", arguments->files,
                   "journals (.jsonl.zst, .jsonl), KernelBench eval_results.json, KernelGYM or CUDA-L1 JSON Lines")
      ->required();
  command->add_option("-p,--pipeline", arguments->configs,
                      "configuration with a `rewards:` section, or a pipeline alone; may be given several times");
  command->add_option("--set", arguments->overrides, "KEY=VALUE inside every pipeline, e.g. turns.alpha=0.5");
  command->add_option("--sweep", arguments->sweeps,
                      "KEY=FROM:TO:STEP or KEY=A,B,C: the first pipeline once for each value");
  command->add_option("--out", arguments->out, "folder for report.html and summary.csv");
  command->add_flag("--candidates", arguments->candidates, "also candidates.csv: what each turn would have earned");
  command->add_option("--batch-groups", arguments->batch_groups, "groups that batch statistics are taken over")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--device", arguments->read.device, "only groups timed on this device");
  command->add_option("--baseline-times", arguments->read.baseline_times, "KernelBench's baseline_time_*.json");
  command->add_option("--level", arguments->read.level, "KernelBench level of the results");
  command->callback([arguments, &action] {
    action = [arguments] {
      if (arguments->candidates && arguments->out.empty()) {
        return Report(absl::InvalidArgumentError("--candidates needs --out"));
      }
      return Report(RunReplay(*arguments));
    };
  });
}

// ---- explain, terms ----

void AddExplain(CLI::App& lab, Action& action) {
  struct Arguments {
    std::string config;
    std::vector<std::string> overrides;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = lab.add_subcommand("explain", "Print a pipeline's formula in words and a worked example");
  command->footer("Example:\n  hone lab explain train.yaml --set turns.alpha=0.5");
  command->add_option("config", arguments->config,
                      "configuration with a `rewards:` section; default: the built-in pipeline");
  command->add_option("--set", arguments->overrides, "KEY=VALUE inside the pipeline");
  command->callback([arguments, &action] {
    action = [arguments] {
      const absl::StatusOr<Pipeline> pipeline = rewards::LoadPipeline(arguments->config, arguments->overrides);
      if (!pipeline.ok()) return Report(pipeline.status());
      std::fputs(rewards::Explain(*pipeline).c_str(), stdout);
      return static_cast<int>(kDone);
    };
  });
}

template <class Base>
void PrintParts(const char* title) {
  absl::PrintF("%s\n", title);
  for (const rewards::Registration<Base>& entry : Base::Registry()) {
    rewards::Polymorphic<Base> part = entry.make();
    absl::PrintF("  %-20s %s\n  %-20s source: %s\n", entry.name, entry.summary, "", entry.source);
    for (const rewards::Parameter& p : rewards::ParametersOf(*part.operator->())) {
      absl::PrintF("  %-20s   %s = %s, in %s: %s\n", "", p.key, p.value, p.range, p.doc);
    }
  }
}

void AddTerms(CLI::App& lab, Action& action) {
  CLI::App* command = lab.add_subcommand("terms", "List the terms, turn rules and advantages that a pipeline may name");
  command->footer("Example:\n  hone lab terms");
  command->callback([&action] {
    action = [] {
      PrintParts<rewards::Term>("terms:");
      PrintParts<rewards::TurnRule>("turns:");
      PrintParts<rewards::Advantage>("advantage:");
      return static_cast<int>(kDone);
    };
  });
}

// ---- noise-floor ----

struct NoiseFloorArguments {
  std::string file;
  std::string deltas;
  std::string csv;
};

absl::StatusOr<std::vector<double>> DeltasAround(const std::string& given, double suggested) {
  if (suggested == 0) suggested = trainer::MirrorPop().delta;
  if (given.empty()) return std::vector<double>{suggested / 4, suggested / 2, suggested, 2 * suggested, 4 * suggested};
  const absl::StatusOr<Sweep> sweep = rewards::ParseSweep("delta=" + given);
  if (!sweep.ok()) return absl::InvalidArgumentError(absl::StrCat("--deltas ", given, ": expected FROM:TO:STEP or A,B,C"));
  return sweep->values;
}

absl::Status RunNoiseFloor(const NoiseFloorArguments& arguments) {
  trainer::NoiseFloor floor;
  HONE_ASSIGN_OR_RETURN(const std::string warning,
                        trainer::ReadLogProbs(arguments.file, [&](const auto& record) { return floor.Add(record); }));
  HONE_ASSIGN_OR_RETURN(const double suggested, floor.SuggestedDelta());
  HONE_ASSIGN_OR_RETURN(const std::vector<double> deltas, DeltasAround(arguments.deltas, suggested));
  absl::PrintF("%s\n", floor.Text(deltas));
  if (suggested > 0) {
    absl::PrintF("suggested delta: %.3g\n", suggested);
  } else {
    absl::PrintF("engine and learner agree to the bit: any delta is above the noise, how much staleness to bear decides\n");
  }
  if (!warning.empty()) absl::PrintF("warning: %s\n", warning);
  return arguments.csv.empty() ? absl::OkStatus() : WriteFileAtomically(arguments.csv, floor.Csv(deltas));
}

void AddNoiseFloor(CLI::App& lab, Action& action) {
  auto arguments = std::make_shared<NoiseFloorArguments>();
  CLI::App* command =
      lab.add_subcommand("noise-floor", "Measure learner against rollout log-probs; suggest MirrorPop's delta");
  command->footer("Example:\n  hone lab noise-floor runs/quick/log_probs.jsonl --deltas 0.01:0.1:0.01");
  command->add_option("file", arguments->file, "recorded log-probabilities (docs/rewards.md)")->required();
  command->add_option("--deltas", arguments->deltas,
                      "thresholds to try: FROM:TO:STEP or A,B,C; default: around the suggestion");
  command->add_option("--csv", arguments->csv, "also write the table to this file");
  command->callback([arguments, &action] { action = [arguments] { return Report(RunNoiseFloor(*arguments)); }; });
}

// ---- simulate ----

struct SimulateArguments {
  std::vector<std::string> files;
  std::string config;
  std::vector<std::string> overrides;
  std::string sweep;
  std::string out;
  std::string device;
  int64_t seeds = 5;
  uint64_t seed = 1;
  int64_t tasks = 40;
};

absl::StatusOr<std::vector<trainer::SimVariant>> VariantsOf(const SimulateArguments& arguments) {
  if (!arguments.sweep.empty()) {
    HONE_ASSIGN_OR_RETURN(const Sweep sweep, rewards::ParseSweep(arguments.sweep));
    return trainer::SweepSimulation(arguments.config, arguments.overrides, sweep);
  }
  HONE_ASSIGN_OR_RETURN(const trainer::SimulationConfig config,
                        trainer::LoadSimulation(arguments.config, arguments.overrides));
  return trainer::Ablations(config);
}

absl::Status RunSimulate(const SimulateArguments& arguments) {
  HONE_ASSIGN_OR_RETURN(const std::vector<trainer::SimVariant> variants, VariantsOf(arguments));
  trainer::World world = trainer::SyntheticWorld(arguments.tasks, /*seed=*/1);
  if (!arguments.files.empty()) {
    ReadOptions read;
    read.device = arguments.device;
    HONE_ASSIGN_OR_RETURN(world, trainer::RecordedWorld(arguments.files, read));
  }
  HONE_ASSIGN_OR_RETURN(const std::vector<trainer::VariantRuns> runs,
                        trainer::RunVariants(world, variants, arguments.seeds, arguments.seed));
  std::fputs(trainer::SimText(world, runs).c_str(), stdout);
  if (arguments.out.empty()) return absl::OkStatus();
  HONE_RETURN_IF_ERROR(MakeFolders(arguments.out));
  HONE_RETURN_IF_ERROR(WriteFileAtomically(arguments.out + "/simulation.csv", trainer::SimCsv(runs)));
  HONE_RETURN_IF_ERROR(WriteFileAtomically(arguments.out + "/simulation.html", trainer::SimHtml(world, runs)));
  absl::PrintF("wrote %s/simulation.html\n", arguments.out);
  return absl::OkStatus();
}

void AddSimulate(CLI::App& lab, Action& action) {
  auto arguments = std::make_shared<SimulateArguments>();
  CLI::App* command =
      lab.add_subcommand("simulate", "Train a tabular policy over candidates: the direction of each mechanism");
  command->footer(
      "Example:\n  hone lab simulate runs/quick/journal.jsonl.zst --set turns=1\n"
      "  hone lab simulate --set turns=1 --sweep retry.probability=0:0.5:0.1 --out sim");
  command->add_option("files", arguments->files, "recorded episodes, as for replay; default: a synthetic world");
  command->add_option("-c,--config", arguments->config,
                      "configuration with rewards, retry, filters and the model's assumptions");
  command->add_option("--set", arguments->overrides, "KEY=VALUE of the configuration, e.g. retry.probability=0.2");
  command->add_option("--sweep", arguments->sweep, "KEY=FROM:TO:STEP or KEY=A,B,C, in place of the ablations");
  command->add_option("--out", arguments->out, "folder for simulation.html and simulation.csv");
  command->add_option("--device", arguments->device, "only groups timed on this device");
  command->add_option("--seeds", arguments->seeds, "runs of every variant")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "of the first run")->capture_default_str();
  command->add_option("--tasks", arguments->tasks, "tasks of the synthetic world")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->callback([arguments, &action] { action = [arguments] { return Report(RunSimulate(*arguments)); }; });
}

}  // namespace

void AddLab(CLI::App& app, Action& action) {
  CLI::App* lab = app.add_subcommand("lab", "Study rewards on recorded episodes, without a GPU");
  lab->require_subcommand(1);
  AddReplay(*lab, action);
  AddExplain(*lab, action);
  AddTerms(*lab, action);
  AddNoiseFloor(*lab, action);
  AddSimulate(*lab, action);
}

}  // namespace hone::cli
