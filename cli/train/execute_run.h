#pragma once

// What the commands that train do alike, from their command line to their last line.

#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/config.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "cli/train/report.h"
#include "cli/train/run_options.h"
#include "trainer/comm/rank_environment.h"

namespace hone::cli {

/// Prints the settings if asked to; else makes the run, writes its report and tells its summary. `Run` has
/// Create(config, folder, resume) and Run(), which says whether it came to its end; `command` names a run that got no name.
template <class Run, class Config>
absl::Status ExecuteRun(const RunOptions& options, const std::string& command) {
  HONE_ASSIGN_OR_RETURN(const std::string folder, FolderOfRun(options, command));
  Config config;
  HONE_RETURN_IF_ERROR(ReadRunConfig(options, folder, config));
  if (options.print_config) {
    std::fputs(ToYaml(config).c_str(), stdout);
    return absl::OkStatus();
  }
  const SteadyTime start = SteadyTime::Now();
  HONE_ASSIGN_OR_RETURN(const auto run, Run::Create(config, folder, options.resume));
  HONE_ASSIGN_OR_RETURN(const bool ended, run->Run());
  HONE_ASSIGN_OR_RETURN(const trainer::RankEnvironment rank, trainer::ReadRankEnvironment());
  if (rank.rank != 0) return absl::OkStatus();  // the first of a job's ranks reports
  HONE_RETURN_IF_ERROR(WriteRunReport(folder));
  if (!ended) {
    std::printf("stopped by rl.max_seconds; --resume goes on\n");
    return absl::OkStatus();
  }
  HONE_ASSIGN_OR_RETURN(const std::string summary, RunSummary(folder));
  std::printf("%s\n%.0f seconds. Look at %s/report.html\n", summary.c_str(),
              absl::ToDoubleSeconds(SteadyTime::Now() - start), folder.c_str());
  return absl::OkStatus();
}

}  // namespace hone::cli
