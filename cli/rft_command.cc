// `hone rft`: samples, verifies and draws a data set for rejection fine-tuning.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/config.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/train/rft.h"
#include "cli/train/run_options.h"

namespace hone::cli {
namespace {

absl::Status Execute(const RunOptions& options) {
  HONE_ASSIGN_OR_RETURN(const std::string folder, FolderOfRun(options, "rft"));
  RftConfig config;
  HONE_RETURN_IF_ERROR(ReadRunConfig(options, folder, config));
  if (options.print_config) {
    std::fputs(ToYaml(config).c_str(), stdout);
    return absl::OkStatus();
  }
  HONE_RETURN_IF_ERROR(RunRft(config, folder, options.resume));
  HONE_ASSIGN_OR_RETURN(const std::string figures, ReadFile(folder + "/rft.json"));
  std::printf("%sTrain on it: hone sft --set start=%s --set data=%s/dataset.jsonl\n", figures.c_str(),
              config.policy.start.c_str(), folder.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddRft(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("rft", "Sample, verify and draw right answers: a data set for hone sft");
  command->add_option("config", options->config, "YAML settings; --print-config shows all of them");
  AddRunOptions(*command, *options);
  command->footer(
      "Example:\n  hone rft examples/rft.yaml --name draw --set policy.start=models/Qwen2.5-Coder-1.5B-Instruct");
  command->callback([options, &action] { action = [options] { return Report(Execute(*options)); }; });
}

}  // namespace hone::cli
