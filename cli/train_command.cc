// `hone train`: reinforces a policy on measured rewards with settings from a YAML file.

#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/train/config.h"
#include "cli/train/execute_run.h"
#include "cli/train/run.h"
#include "cli/train/run_options.h"

namespace hone::cli {

void AddTrain(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("train", "Reinforce a policy on measured rewards, as a YAML file says");
  command->add_option("config", options->config, "YAML settings; --print-config shows all of them");
  AddRunOptions(*command, *options);
  auto max_seconds = std::make_shared<double>(0);
  command->add_option("--max-seconds", *max_seconds, "rl.max_seconds, for this start alone")->check(CLI::Range(0.0, 1e9));
  command->footer(
      "Example:\n  hone quickstart --name first\n"
      "  hone train examples/train_cpu.yaml --name second --set policy.start=runs/first/checkpoint/sft/step_00000700");
  command->callback([options, max_seconds, &action] {
    if (*max_seconds > 0) options->overrides.push_back(absl::StrCat("rl.max_seconds=", *max_seconds));
    action = [options] { return Report(ExecuteRun<TrainRun, TrainConfig>(*options, "train")); };
  });
}

}  // namespace hone::cli
