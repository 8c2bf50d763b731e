// `hone worker`: samples and judges for a run of `hone train` that listens.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/config.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/train/worker.h"

namespace hone::cli {
namespace {

struct WorkerOptions {
  std::string config, coordinator, name;
  std::vector<std::string> overrides;
  bool print_config = false;
};

std::string OwnName() {
  char host[256] = "worker";
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat(host, "-", getpid());
}

absl::Status Execute(const WorkerOptions& options) {
  absl::StatusOr<ConfigFile> file = options.config.empty() ? ConfigFile::Parse("{}", "command line", options.overrides)
                                                           : ConfigFile::Load(options.config, options.overrides);
  HONE_RETURN_IF_ERROR(file.status());
  if (options.print_config) {
    WorkerConfig config;
    HONE_RETURN_IF_ERROR(file->Read(config));
    std::fputs(ToYaml(config).c_str(), stdout);
    return absl::OkStatus();
  }
  if (options.coordinator.empty()) return absl::InvalidArgumentError("--coordinator is missing: where the run listens");
  if (!absl::StartsWith(options.coordinator, "unix:")) {
    HONE_RETURN_IF_ERROR(ParseHostPort("--coordinator", options.coordinator, "unix:/path").status());
  }
  return RunWorkerProcess({options.coordinator, options.name.empty() ? OwnName() : options.name, *file});
}

}  // namespace

void AddWorker(CLI::App& app, Action& action) {
  auto options = std::make_shared<WorkerOptions>();
  CLI::App* command = app.add_subcommand("worker", "Sample and judge for a run of hone train on another device or host");
  command->add_option("--coordinator", options->coordinator, "workers.listen of the run: host:port or unix:/path");
  command->add_option("--config", options->config, "YAML settings of this worker; what it does not say is as in the run");
  command->add_option("--set", options->overrides, "one setting, e.g. --set device.device=cuda:1; may be repeated");
  command->add_option("--name", options->name, "unique among the run's workers (default: host and process id)");
  command->add_flag("--print-config", options->print_config, "print the settings that a worker may have and stop");
  command->footer(
      "Example:\n  hone train examples/train_8b_split.yaml --name split --set workers.listen=0.0.0.0:50161\n"
      "  hone worker --coordinator trainer-0:50161 --set device.device=cuda:1\n"
      "Exit codes: 0 the run is over, or SIGTERM: leases were given back; 1 the run did not answer; 2 a setting is unusable.");
  command->callback([options, &action] { action = [options] { return Report(Execute(*options)); }; });
}

}  // namespace hone::cli
