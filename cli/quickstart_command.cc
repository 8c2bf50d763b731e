// `hone quickstart`: a small policy learns to write faster kernels from measured execution, on a machine without a GPU.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/config.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/quickstart/config.h"
#include "cli/quickstart/report.h"
#include "cli/quickstart/run.h"
#include "cli/report_error.h"

namespace hone::cli {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> overrides;
  std::string name;
  std::string runs = "runs";
  int64_t seed = -1;
  bool resume = false;
  bool print_config = false;
};

absl::StatusOr<QuickstartConfig> ConfigOf(const Options& options, const std::string& folder) {
  std::vector<std::string> overrides = options.overrides;
  if (options.seed >= 0) overrides.push_back(absl::StrCat("seed=", options.seed));
  QuickstartConfig config;
  const std::string path = options.resume ? folder + "/config.yaml" : options.config;
  if (path.empty()) {
    HONE_ASSIGN_OR_RETURN(const ConfigFile file, ConfigFile::Parse("{}", "command line", overrides));
    HONE_RETURN_IF_ERROR(file.Read(config));
  } else {
    HONE_ASSIGN_OR_RETURN(const ConfigFile file, ConfigFile::Load(path, overrides));
    HONE_RETURN_IF_ERROR(file.Read(config));
  }
  if (config.model.hidden_size % (2 * config.model.heads) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model.hidden_size ", config.model.hidden_size,
                                                   " must be a multiple of twice model.heads (", config.model.heads, ")"));
  }
  return config;
}

absl::Status Execute(const Options& options) {
  const std::string name = !options.name.empty()
                               ? options.name
                               : absl::FormatTime("quickstart-%Y%m%d-%H%M%S", absl::Now(), absl::LocalTimeZone());
  const std::string folder = options.runs + "/" + name;
  HONE_ASSIGN_OR_RETURN(const QuickstartConfig config, ConfigOf(options, folder));
  if (options.print_config) {
    std::fputs(ToYaml(config).c_str(), stdout);
    return absl::OkStatus();
  }
  const absl::Time start = absl::Now();
  HONE_ASSIGN_OR_RETURN(const auto run, QuickstartRun::Create(config, folder, options.resume));
  HONE_RETURN_IF_ERROR(run->Run());
  HONE_RETURN_IF_ERROR(WriteQuickstartReport(folder));
  HONE_ASSIGN_OR_RETURN(const std::string summary, QuickstartSummary(folder));
  std::printf("%s\n%.0f seconds. Look at %s/report.html\n", summary.c_str(), absl::ToDoubleSeconds(absl::Now() - start),
              folder.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddQuickstart(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("quickstart", "Train a small policy on this machine with measured rewards");
  command->add_option("--config", options->config, "YAML settings; see --print-config");
  command->add_option("--set", options->overrides, "one setting, e.g. --set rl.steps=40; may be repeated");
  command->add_option("--name", options->name, "folder of the run below --runs (default: the time)");
  command->add_option("--runs", options->runs, "where runs are kept")->capture_default_str();
  command->add_option("--seed", options->seed, "of everything random");
  command->add_flag("--resume", options->resume, "go on with the run called --name");
  command->add_flag("--print-config", options->print_config, "print the resolved settings and stop");
  command->footer("Example: hone quickstart --name first --set rl.steps=40");
  command->callback([options, &action] {
    action = [options] {
      if (options->resume && options->name.empty()) {
        return Report(absl::InvalidArgumentError("--resume needs --name"));
      }
      return Report(Execute(*options));
    };
  });
}

}  // namespace hone::cli
