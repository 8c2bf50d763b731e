// `hone rollout`: samples a policy on tasks and has the candidates verified, without learning; what comes out is a journal.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/config.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/train/phases.h"
#include "cli/train/run_options.h"
#include "cli/train/sampled_policy.h"
#include "cli/train/setup.h"

namespace hone::cli {
namespace {

struct RolloutConfig : SampledPolicy {
  TaskSettings tasks;
  std::string split = "held_out";
  int64_t limit = 0;
  int64_t max_tokens = 320;
  SamplingSettings sampling;
};
template <class F>
void Describe(F& f, RolloutConfig& c) {
  Describe(f, static_cast<SampledPolicy&>(c));
  f.Section("tasks", c.tasks, "where the tasks come from");
  f.Value("split", c.split, OneOf{{"train", "held_out"}}, "which of them");
  f.Value("limit", c.limit, Range<int64_t>(0, 1 << 30), "tasks at most; 0: all");
  f.Value("max_tokens", c.max_tokens, Range<int64_t>(8, 32768), "tokens of an answer");
  f.Section("sampling", c.sampling, "how each task is sampled");
}

absl::Status Sample(const RolloutConfig& config, PolicySetup& setup, RunFolder& folder) {
  HONE_RETURN_IF_ERROR(setup.Connect(config.verifier, config.tasks, /*named_share=*/0, folder.Path("verifier.log")));
  HONE_ASSIGN_OR_RETURN(std::vector<Problem> problems, setup.problems().Listed(*ParseSplit(config.split)));
  if (problems.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("tasks.from: ", config.tasks.from, " has no task of split ", config.split));
  }
  if (config.limit > 0) problems.resize(std::min(problems.size(), static_cast<size_t>(config.limit)));
  return SampleProblems(config.sampling, config.max_tokens, problems, setup.Parts(setup.ReportedBaselines()), "rollout", folder,
                        setup.running());
}

absl::Status Execute(const RunOptions& options) {
  HONE_ASSIGN_OR_RETURN(const std::string path, FolderOfRun(options, "rollout"));
  RolloutConfig config;
  HONE_RETURN_IF_ERROR(ReadRunConfig(options, path, config));
  if (options.print_config) {
    std::fputs(ToYaml(config).c_str(), stdout);
    return absl::OkStatus();
  }
  HONE_ASSIGN_OR_RETURN(PolicySetup setup, PolicySetup::Create(config.policy, {config.device, {}, config.engine}, config.threads,
                                                               config.seed));
  HONE_ASSIGN_OR_RETURN(RunFolder folder, RunFolder::Create(path, ToYaml(config), options.resume));
  WatchForInterrupt();
  HONE_RETURN_IF_ERROR(folder.Timed("rollout", [&] { return Sample(config, setup, folder); }));
  std::printf("%s/rollout.jsonl.zst for hone lab replay, %s/rollout.json for the figures\n", path.c_str(), path.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddRollout(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("rollout", "Sample a policy on tasks and verify what it writes, without learning");
  command->add_option("config", options->config, "YAML settings; --print-config shows all of them");
  AddRunOptions(*command, *options);
  command->footer(
      "Example:\n  hone rollout --name samples --set policy.start=runs/first --set policy.prompts=program "
      "--set tasks.from=generated\n  hone lab replay runs/samples/rollout.jsonl.zst");
  command->callback([options, &action] { action = [options] { return Report(Execute(*options)); }; });
}

}  // namespace hone::cli
