#pragma once

// A verifier of one's own: starts hone-verifier as a child process on a private Unix socket, for programs that need
// one without anybody having started a service (`hone verify`, `hone quickstart`).

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace hone::verifier {

struct LocalServerOptions {
  std::string program;                   // empty: hone-verifier beside the running program
  std::string python;                    // for references; empty: $HONE_PYTHON, else the one found at build time
  std::vector<std::string> extra_args;   // passed through, e.g. {"--set", "build_slots=2"}
  std::string log_path;                  // its log; empty: discarded
};

class LocalServer {
 public:
  /// Returns once the service answers its health check, or with the first error line of its log.
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start(const LocalServerOptions& options);
  /// Stops it (SIGTERM, then SIGKILL) and removes its socket and folder.
  ~LocalServer();

  const std::string& endpoint() const { return endpoint_; }

 private:
  LocalServer() = default;
  struct State;
  std::unique_ptr<State> state_;
  std::string endpoint_;
};

}  // namespace hone::verifier
