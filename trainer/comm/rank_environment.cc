#include "trainer/comm/rank_environment.h"

#include <cstdlib>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace hone::trainer {
namespace {

using Variable = std::function<std::optional<std::string>(const std::string&)>;

absl::StatusOr<int> Integer(const Variable& variable, const std::string& name, int low, int high) {
  const std::optional<std::string> text = variable(name);
  if (!text)
    return absl::InvalidArgumentError(
        absl::StrCat("environment: ", name, " is not set, an integer in [", low, ", ", high, "] is needed"));
  int value = 0;
  if (!absl::SimpleAtoi(*text, &value) || value < low || value > high) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: ", name, " = \"", *text, "\", allowed [", low, ", ", high, "]"));
  }
  return value;
}

}  // namespace

absl::StatusOr<RankEnvironment> ReadRankEnvironment(const Variable& variable) {
  constexpr int kMost = 1 << 20;
  RankEnvironment out;
  const bool torchrun = variable("RANK").has_value();
  const bool slurm = !torchrun && variable("SLURM_PROCID").has_value() && variable("MASTER_ADDR").has_value();
  if (!torchrun && !slurm) return out;
  HONE_ASSIGN_OR_RETURN(out.world_size, Integer(variable, torchrun ? "WORLD_SIZE" : "SLURM_NTASKS", 1, kMost));
  HONE_ASSIGN_OR_RETURN(out.rank, Integer(variable, torchrun ? "RANK" : "SLURM_PROCID", 0, out.world_size - 1));
  const char* local = torchrun ? "LOCAL_RANK" : "SLURM_LOCALID";
  if (variable(local)) {
    HONE_ASSIGN_OR_RETURN(out.local_rank, Integer(variable, local, 0, out.world_size - 1));
  }
  if (out.alone()) return out;
  const std::optional<std::string> address = variable("MASTER_ADDR");
  if (!address || address->empty()) {
    return absl::InvalidArgumentError("environment: MASTER_ADDR is not set, the address of rank 0's host is needed");
  }
  out.master_addr = *address;
  HONE_ASSIGN_OR_RETURN(out.master_port, Integer(variable, "MASTER_PORT", 1, 65535));
  out.store_is_served = variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  return out;
}

absl::StatusOr<RankEnvironment> ReadRankEnvironment() {
  return ReadRankEnvironment([](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
}

}  // namespace hone::trainer
