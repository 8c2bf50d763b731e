#pragma once

// The `hone` command over a folder of runs of its own, for tests of whole runs.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/steady_time.h"
#include "base/subprocess.h"
#include "tests/support/test_programs.h"

namespace hone::testing {

/// What cannot even be started throws.
class HoneRuns {
 public:
  explicit HoneRuns(absl::string_view prefix) : folder_(TempFolder::Create(prefix).value()) {}

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  /// A command that knows the folder of runs.
  SpawnOptions Command(const std::vector<std::string>& arguments) const {
    SpawnOptions options;
    options.argv = {TestProgram("hone")};
    options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
    options.argv.insert(options.argv.end(), {"--runs", folder_.path()});
    return options;
  }
  RunResult Run(const SpawnOptions& options) const { return hone::Run(options, absl::Minutes(3)).value(); }

  std::string Checkpoint(const std::string& run, int step) const {
    return Path(absl::StrCat(run, "/checkpoint/rl/step_", absl::Dec(step, absl::kZeroPad8)));
  }
  std::string WeightsHash(const std::string& run, int step) const {
    return Sha256Hex(ReadFile(Checkpoint(run, step) + "/tensors.safetensors").value());
  }
  /// Starts a run and kills it once that checkpoint of it is whole.
  void KillAt(const SpawnOptions& options, const std::string& run, int step) const {
    Child child = Child::Spawn(options).value();
    const SteadyTime deadline = SteadyTime::Now() + absl::Minutes(2);
    while (!FileExists(Checkpoint(run, step) + "/COMMIT") && SteadyTime::Now() < deadline && !child.Ended()) {
      absl::SleepFor(absl::Milliseconds(2));
    }
    child.Kill();
  }

 private:
  TempFolder folder_;
};

}  // namespace hone::testing
