#pragma once

// Who this process is among the ranks of a job: the contract of torchrun's environment, which Slurm and Kubernetes
// launchers can fulfil, too. No torch.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace hone::trainer {

struct RankEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // which device of this host
  std::string master_addr = "127.0.0.1";
  int master_port = 29500;
  bool store_is_served = false;  // somebody hosts the store (torchrun's agent); else rank 0 does
  std::string meeting;           // of several that share a store; empty: the only one

  bool alone() const { return world_size == 1; }
};

/// Reads RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_USE_AGENT_STORE; without RANK, srun's
/// SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID (MASTER_ADDR and MASTER_PORT must then be given). With neither: alone.
/// `variable` gives a variable's value (std::getenv in programs). kInvalidArgument names the variable, its value and
/// what is allowed.
absl::StatusOr<RankEnvironment> ReadRankEnvironment(
    const std::function<std::optional<std::string>(const std::string&)>& variable);

/// Of this process.
absl::StatusOr<RankEnvironment> ReadRankEnvironment();

}  // namespace hone::trainer
