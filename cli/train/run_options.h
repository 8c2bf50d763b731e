#pragma once

// What commands that make a run share on their command line.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/config.h"
#include "base/status_macros.h"

namespace hone::cli {

struct RunOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string name;
  std::string runs = "runs";
  int64_t seed = -1;
  bool resume = false;
  bool print_config = false;
};

/// --set, --name, --runs, --seed, --resume, --print-config.
void AddRunOptions(CLI::App& command, RunOptions& options);

/// `runs`/`name`; without a name, one made of `command` and the time. kInvalidArgument: --resume without --name.
absl::StatusOr<std::string> FolderOfRun(const RunOptions& options, const std::string& command);

/// The settings of the command line's file, or of the run in `folder` that is resumed. `config` holds the defaults.
template <class Config>
absl::Status ReadRunConfig(const RunOptions& options, const std::string& folder, Config& config) {
  std::vector<std::string> overrides = options.overrides;
  if (options.seed >= 0) overrides.push_back("seed=" + std::to_string(options.seed));
  const std::string path = options.resume ? folder + "/config.yaml" : options.config;
  absl::StatusOr<ConfigFile> file =
      path.empty() ? ConfigFile::Parse("{}", "command line", overrides) : ConfigFile::Load(path, overrides);
  HONE_RETURN_IF_ERROR(file.status());
  return file->Read(config);
}

}  // namespace hone::cli
