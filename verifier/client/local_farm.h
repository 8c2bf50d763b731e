#pragma once

// A farm on this host: a redis-server and any number of hone-verifier processes around it, each with a folder of its own
// as if on a host of its own, to be killed and started again. For tests, load measurements, and to look at a farm before
// there is a cluster.

#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace hone::verifier {

struct LocalFarmOptions {
  std::string program;             // empty: hone-verifier beside the running program
  std::string redis = "redis-server";
  std::string python;              // as in LocalServerOptions
  std::vector<std::string> roles;  // one process each: "front", "build", "lane", "all"
  std::vector<std::string> args;   // of every process, e.g. {"--set=lanes=1"}
};

/// One thread at a time, except for killing and starting different parts.
class LocalFarm {
 public:
  /// Returns once every part has joined. kNotFound: no redis-server or hone-verifier; else the first error line of a log.
  static absl::StatusOr<std::unique_ptr<LocalFarm>> Start(LocalFarmOptions options);
  ~LocalFarm();

  /// Of the processes that take requests; they stay the same over restarts.
  std::vector<std::string> endpoints() const;
  size_t size() const;
  const std::string& role(size_t part) const;
  pid_t pid(size_t part) const;

  void Kill(size_t part);                 // as kill -9
  absl::Status Restart(size_t part);      // kills what still runs; returns once it has joined
  void Terminate(size_t part);            // SIGTERM
  absl::StatusOr<int> Wait(size_t part);  // for its end: the exit code, or kDeadlineExceeded after a minute
  std::string Log(size_t part) const;

  void KillRedis();
  absl::Status StartRedis();              // with what its append-only file holds

 private:
  struct State;
  explicit LocalFarm(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::verifier
