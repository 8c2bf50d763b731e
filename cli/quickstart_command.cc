// `hone quickstart`: a small policy learns to write faster kernels from measured execution, on a machine without a GPU.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/config.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/quickstart/config.h"
#include "cli/quickstart/run.h"
#include "cli/report_error.h"
#include "cli/train/report.h"
#include "cli/train/run_options.h"

namespace hone::cli {
namespace {

absl::Status Execute(const RunOptions& options) {
  HONE_ASSIGN_OR_RETURN(const std::string folder, FolderOfRun(options, "quickstart"));
  QuickstartConfig config;
  HONE_RETURN_IF_ERROR(ReadRunConfig(options, folder, config));
  if (config.model.hidden_size % (2 * config.model.heads) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model.hidden_size ", config.model.hidden_size,
                                                   " must be a multiple of twice model.heads (", config.model.heads, ")"));
  }
  if (options.print_config) {
    std::fputs(ToYaml(config).c_str(), stdout);
    return absl::OkStatus();
  }
  const absl::Time start = absl::Now();
  HONE_ASSIGN_OR_RETURN(const auto run, QuickstartRun::Create(config, folder, options.resume));
  HONE_RETURN_IF_ERROR(run->Run());
  HONE_RETURN_IF_ERROR(WriteRunReport(folder));
  HONE_ASSIGN_OR_RETURN(const std::string summary, RunSummary(folder));
  std::printf("%s\n%.0f seconds. Look at %s/report.html\n", summary.c_str(), absl::ToDoubleSeconds(absl::Now() - start),
              folder.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddQuickstart(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("quickstart", "Train a small policy on this machine with measured rewards");
  command->add_option("--config", options->config, "YAML settings; see --print-config");
  AddRunOptions(*command, *options);
  command->footer("Example: hone quickstart --name first --set rl.steps=40");
  command->callback([options, &action] { action = [options] { return Report(Execute(*options)); }; });
}

}  // namespace hone::cli
