// A rollout worker for tests: rollout_worker <coordinator> <name> <what> <groups at a time> <mark>
//   work     samples at once
//   slow     a fifth of a second a group
//   die      is killed while it samples its first groups
//   freeze   is stopped by the system at the same point, and never goes on
//   stall    never comes to an end, and says that it lives
//   lie      delivers log-probs that are not numbers
//   fail     gives its groups back
// Makes the file <mark> when it holds its first lease.

#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/time/clock.h"
#include "tests/trainer/coordinator/sampled_group.h"
#include "trainer/coordinator/worker.h"

int main(int argc, char** argv) {
  using namespace hone;  // NOLINT: a test's program
  if (argc != 6) return 2;
  const std::string what = argv[3];
  trainer::WorkerOptions options;
  options.coordinator = argv[1];
  options.name = argv[2];
  options.groups = std::atoll(argv[4]);
  options.wait = absl::Milliseconds(500);
  options.unreachable = absl::Seconds(20);
  options.failures = INT64_MAX;
  const auto report = trainer::RunWorker(
      options, [&](absl::Span<const trainer::LeasedGroup> work) -> absl::StatusOr<trainer::SampledWork> {
        if (std::FILE* mark = std::fopen(argv[5], "w")) std::fclose(mark);
        if (what == "die") raise(SIGKILL);
        if (what == "freeze") raise(SIGSTOP);
        if (what == "stall") absl::SleepFor(absl::Seconds(60));
        if (what == "slow") absl::SleepFor(absl::Milliseconds(200) * static_cast<int64_t>(work.size()));
        if (what == "fail") return absl::InternalError("the engine has no memory left");
        trainer::SampledWork done;
        for (const trainer::LeasedGroup& lease : work) {
          done.groups.push_back(testing::SampledGroup(lease, lease.oldest_version));
          if (what == "lie") done.groups.back().episodes[0].turns[0].log_probs[2] = std::nanf("");
        }
        return done;
      });
  if (report.ok()) return 0;
  std::printf("%s\n", std::string(report.status().message()).c_str());
  return 1;
}
