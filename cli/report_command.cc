// `hone report`: makes the report of a run again from the files of its folder, finished or not.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/status_macros.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/train/report.h"

namespace hone::cli {
namespace {

absl::Status Execute(const std::string& folder) {
  HONE_RETURN_IF_ERROR(WriteRunReport(folder));
  HONE_ASSIGN_OR_RETURN(const std::string summary, RunSummary(folder));
  std::printf("%s\nwrote %s/report.html\n", summary.c_str(), folder.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddReport(CLI::App& app, Action& action) {
  auto folder = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("report", "Make a run's report.html again from its folder");
  command->add_option("run", *folder, "the folder of a run of hone quickstart or hone train")->required();
  command->footer("Example:\n  hone report runs/first");
  command->callback([folder, &action] { action = [folder] { return Report(Execute(*folder)); }; });
}

}  // namespace hone::cli
