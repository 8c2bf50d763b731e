#include "cli/train/run_options.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace hone::cli {

void AddRunOptions(CLI::App& command, RunOptions& options) {
  command.add_option("--set", options.overrides, "one setting, e.g. --set rl.steps=40; may be repeated");
  command.add_option("--name", options.name, "folder of the run below --runs (default: the time)");
  command.add_option("--runs", options.runs, "where runs are kept")->capture_default_str();
  command.add_option("--seed", options.seed, "of everything random");
  command.add_flag("--resume", options.resume, "go on with the run called --name, with its own settings");
  command.add_flag("--print-config", options.print_config, "print the resolved settings and stop");
}

absl::StatusOr<std::string> FolderOfRun(const RunOptions& options, const std::string& command) {
  if (options.resume && options.name.empty()) return absl::InvalidArgumentError("--resume needs --name");
  if (absl::StrContains(options.name, '/') || options.name == "..") {
    return absl::InvalidArgumentError(absl::StrCat("--name: '", options.name, "' is no name of one folder; --runs says where it stands"));
  }
  const std::string name = !options.name.empty() ? options.name
                                                 : absl::FormatTime(absl::StrCat(command, "-%Y%m%d-%H%M%S"), absl::Now(),
                                                                    absl::LocalTimeZone());
  return absl::StrCat(options.runs, "/", name);
}

}  // namespace hone::cli
