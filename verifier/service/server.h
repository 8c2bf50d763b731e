#pragma once

// The whole verifier in one process: queue, caches, lanes, build slots, gRPC with health and reflection, metrics.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/log.h"
#include "base/steady_time.h"
#include "verifier/service/config.h"

namespace hone::verifier {

class Server {
 public:
  /// Returns once lanes are ready and every address is served. `config` must be Resolved.
  /// kFailedPrecondition: an address or the folder is in use (names it); also what a lane needs and the machine lacks.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config, const Logger& log);
  /// Stops at once; what was running returns to the queue's file.
  ~Server();

  /// As bound: with the port that the system chose for port 0.
  const std::vector<std::string>& addresses() const;

  /// Reports NOT_SERVING, refuses new requests, and returns when the open ones are answered or at the deadline.
  void Drain(SteadyTime deadline);

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::verifier
