// `hone train`: reinforces a policy on measured rewards with settings from a YAML file.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "base/config.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/train/config.h"
#include "cli/train/report.h"
#include "cli/train/run.h"
#include "cli/train/run_options.h"

namespace hone::cli {
namespace {

absl::Status Execute(const RunOptions& options) {
  HONE_ASSIGN_OR_RETURN(const std::string folder, FolderOfRun(options, "train"));
  TrainConfig config;
  HONE_RETURN_IF_ERROR(ReadRunConfig(options, folder, config));
  if (options.print_config) {
    std::fputs(ToYaml(config).c_str(), stdout);
    return absl::OkStatus();
  }
  const absl::Time start = absl::Now();
  HONE_ASSIGN_OR_RETURN(const auto run, TrainRun::Create(config, folder, options.resume));
  HONE_RETURN_IF_ERROR(run->Run());
  HONE_RETURN_IF_ERROR(WriteRunReport(folder));
  HONE_ASSIGN_OR_RETURN(const std::string summary, RunSummary(folder));
  std::printf("%s\n%.0f seconds. Look at %s/report.html\n", summary.c_str(), absl::ToDoubleSeconds(absl::Now() - start),
              folder.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddTrain(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("train", "Reinforce a policy on measured rewards, as a YAML file says");
  command->add_option("config", options->config, "YAML settings; --print-config shows all of them");
  AddRunOptions(*command, *options);
  command->footer(
      "Example:\n  hone quickstart --name first\n"
      "  hone train examples/train_cpu.yaml --name second --set policy.start=runs/first/checkpoint/sft/step_00000700");
  command->callback([options, &action] { action = [options] { return Report(Execute(*options)); }; });
}

}  // namespace hone::cli
