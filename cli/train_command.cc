// `hone train`: reinforces a policy on measured rewards with settings from a YAML file.

#include <CLI/CLI.hpp>
#include <memory>

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
  command->footer(
      "Example:\n  hone quickstart --name first\n"
      "  hone train examples/train_cpu.yaml --name second --set policy.start=runs/first/checkpoint/sft/step_00000700");
  command->callback([options, &action] {
    action = [options] { return Report(ExecuteRun<TrainRun, TrainConfig>(*options, "train")); };
  });
}

}  // namespace hone::cli
