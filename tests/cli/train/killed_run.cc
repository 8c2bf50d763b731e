// `hone train` and `hone sft` that kill themselves in a phase, for killed_run_test.
// usage: killed_train_run train|sft CONFIG FOLDER [PHASE COUNT]
// Goes on where FOLDER holds a run. Dies by SIGKILL when a phase whose name contains PHASE begins for the COUNTth time.

#include <atomic>
#include <csignal>
#include <cstdio>
#include <string>

#include "base/config.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "cli/train/config.h"
#include "cli/train/run.h"
#include "cli/train/sft.h"

namespace hone::cli {
namespace {

template <class Config>
absl::StatusOr<Config> Read(const std::string& path) {
  HONE_ASSIGN_OR_RETURN(const ConfigFile file, ConfigFile::Load(path, {}));
  Config config;
  HONE_RETURN_IF_ERROR(file.Read(config));
  return config;
}

absl::Status Go(const std::string& what, const std::string& path, const std::string& folder,
                const std::function<void(const std::string&)>& on_phase) {
  const bool resume = FileExists(folder + "/config.yaml");
  if (what == "sft") {
    HONE_ASSIGN_OR_RETURN(const SftConfig config, Read<SftConfig>(path));
    return RunSft(config, folder, resume, on_phase);
  }
  HONE_ASSIGN_OR_RETURN(const TrainConfig config, Read<TrainConfig>(path));
  HONE_ASSIGN_OR_RETURN(const auto run, TrainRun::Create(config, folder, resume, on_phase));
  return run->Run().status();
}

}  // namespace
}  // namespace hone::cli

int main(int argc, char** argv) {
  const std::string phase = argc > 5 ? argv[4] : "";
  std::atomic<int> left = argc > 5 ? std::atoi(argv[5]) : 0;
  const absl::Status status = hone::cli::Go(argv[1], argv[2], argv[3], [&](const std::string& what) {
    if (!phase.empty() && what.find(phase) != std::string::npos && --left == 0) std::raise(SIGKILL);
  });
  if (!status.ok()) std::fprintf(stderr, "killed_train_run: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
