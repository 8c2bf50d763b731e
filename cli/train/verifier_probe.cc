#include "cli/train/verifier_probe.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rollout/prompt/worked_examples.h"

namespace hone::cli {

absl::Status ProbeVerifier(verifier::Client& client, const rollout::VerifyTemplate& verify) {
  const rollout::WorkedExample example = rollout::ExampleOf(rollout::LaunchShape::kElements);
  const auto request = [&](const std::string& source) {
    VerifyRequest made;
    made.task = example.task;
    made.candidate = {verify.format, verify.backend, source};
    made.protocol = verify.protocol;
    made.priority = Priority::kHigh;
    made.use_cache = false;
    return made;
  };
  const VerifyRequest requests[] = {request(example.source), request(example.skeleton)};
  Verdict verdicts[2];
  HONE_RETURN_IF_ERROR(client.VerifyAll(requests, [&](size_t index, const Verdict& verdict) { verdicts[index] = verdict; }));
  const auto refuse = [](const char* which, const Verdict& verdict) {
    return absl::FailedPreconditionError(absl::StrCat("self-test: the verifier is the side that is off: ", which, " kernel is ",
                                                      Name(verdict.status), verdict.message.empty() ? "" : ": ", verdict.message));
  };
  if (!verdicts[0].ok()) return refuse("a right", verdicts[0]);
  if (verdicts[1].ok() || verdicts[1].status == VerdictStatus::kInfra) return refuse("a wrong", verdicts[1]);
  return absl::OkStatus();
}

}  // namespace hone::cli
