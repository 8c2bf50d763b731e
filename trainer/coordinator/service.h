#pragma once

// The lease table as a gRPC service (hone.v1.Coordinator), for workers on any host. Plaintext and without access
// control: for the network that the job's ranks share, like their store.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/coordinator/lease_table.h"
#include "trainer/coordinator/run_desk.h"

namespace hone::trainer {

class CoordinatorServer {
 public:
  /// Serves `table` at "host:port" (port 0: the system's choice) or "unix:/path". The table is borrowed for the
  /// server's life, and so is the desk; without one workers cannot join, and lease only. `workers`: at least so many
  /// share a batch, whoever is there. kFailedPrecondition: the address cannot be served.
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Start(const std::string& address, LeaseTable& table,
                                                                  RunDesk* desk = nullptr, int64_t workers = 1);
  /// Refuses new calls, and ends those that wait within a second. Close the table first, so that workers are told that
  /// the run is over.
  ~CoordinatorServer();

  /// As bound.
  const std::string& address() const;

 private:
  struct State;
  explicit CoordinatorServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hone::trainer
