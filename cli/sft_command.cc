// `hone sft`: supervised fine-tuning with settings from a YAML file.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/config.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/train/run_options.h"
#include "cli/train/sft.h"
#include "trainer/comm/rank_environment.h"

namespace hone::cli {
namespace {

absl::Status Execute(const RunOptions& options) {
  HONE_ASSIGN_OR_RETURN(const trainer::RankEnvironment ranks, trainer::ReadRankEnvironment());
  if (!ranks.alone() && options.name.empty())
    return absl::InvalidArgumentError("several ranks need --name: they share the run's folder");
  HONE_ASSIGN_OR_RETURN(const std::string folder, FolderOfRun(options, "sft"));
  SftConfig config;
  HONE_RETURN_IF_ERROR(ReadRunConfig(options, folder, config));
  if (options.print_config) {
    std::fputs(ToYaml(config).c_str(), stdout);
    return absl::OkStatus();
  }
  HONE_RETURN_IF_ERROR(RunSft(config, folder, options.resume));
  if (FileExists(folder + "/sft.json")) std::printf("done: %s\n", folder.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddSft(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("sft", "Fine-tune a model on a JSON Lines data set, on one device or many");
  command->add_option("config", options->config, "YAML settings; --print-config shows all of them");
  AddRunOptions(*command, *options);
  command->footer(
      "Examples:\n  hone sft examples/sft_1b_lora.yaml --name first --set start=models/Qwen2.5-Coder-1.5B-Instruct "
      "--set data=kernels.jsonl\n"
      "  torchrun --nproc-per-node 8 --no-python hone sft examples/sft_8b_full.yaml --name big");
  command->callback([options, &action] { action = [options] { return Report(Execute(*options)); }; });
}

}  // namespace hone::cli
