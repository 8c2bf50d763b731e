#pragma once

// Whether the verifier that a run is to learn from can be believed.

#include "absl/status/status.h"
#include "rollout/episode/driver.h"
#include "verifier/client/client.h"

namespace hone::cli {

/// Has a right answer and an empty one to a small task judged as `verify` says, afresh. kFailedPrecondition: the right one
/// is not OK or the empty one is, with what the verifier says of it; errors of Client::Verify.
absl::Status ProbeVerifier(verifier::Client& client, const rollout::VerifyTemplate& verify);

}  // namespace hone::cli
