#pragma once

// A rollout worker without a model: what it "samples" follows from the lease alone, so that a test knows what must
// come.

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "trainer/coordinator/lease_table.h"

namespace hone::testing {

inline Group SampledGroup(const trainer::LeasedGroup& lease, int64_t policy_version) {
  Group group{lease.request.id, lease.request.task.id, {}};
  for (int e = 0; e < 2; ++e) {
    const std::string draw = Sha256Hex(absl::StrCat(lease.seed, "/", lease.request.id, "/", e));
    Turn turn;
    turn.prompt_ids = lease.request.prompt_ids;
    for (int t = 0; t < 5; ++t) turn.response_ids.push_back(static_cast<unsigned char>(draw[t]));
    turn.log_probs.assign(5, -0.5f - static_cast<float>(e));
    turn.versions = {{0, 5, policy_version}};
    turn.response = draw.substr(0, 5);
    turn.verdict.status = VerdictStatus::kIncorrect;
    group.episodes.push_back({absl::StrCat(lease.request.id, "/", e), lease.request.task.id, {turn}, false});
  }
  return group;
}

}  // namespace hone::testing
