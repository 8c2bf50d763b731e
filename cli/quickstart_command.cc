// `hone quickstart`: a small policy learns to write faster kernels from measured execution, on a machine without a GPU.

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/quickstart/config.h"
#include "cli/quickstart/run.h"
#include "cli/report_error.h"
#include "cli/train/execute_run.h"
#include "cli/train/run_options.h"

namespace hone::cli {

void AddQuickstart(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("quickstart", "Train a small policy on this machine with measured rewards");
  command->add_option("--config", options->config, "YAML settings; see --print-config");
  AddRunOptions(*command, *options);
  command->footer("Example: hone quickstart --name first --set rl.steps=40");
  command->callback([options, &action] {
    action = [options] { return Report(ExecuteRun<QuickstartRun, QuickstartConfig>(*options, "quickstart")); };
  });
}

}  // namespace hone::cli
