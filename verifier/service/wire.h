#pragma once

// The structs that pass between the service, its queue and its lane processes, as bytes of hone.internal.

#include <optional>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/signature.h"
#include "base/steady_time.h"
#include "base/task.h"
#include "base/verdict.h"
#include "base/verify_request.h"
#include "verifier/build/builder.h"
#include "verifier/lane/lane.h"

namespace hone::verifier {

/// What a job was asked: a verdict, or a task's signature.
using JobPayload = std::variant<VerifyRequest, Task>;

/// How it ended well; a Status instead is the request's fault, and travels too.
using JobResult = std::variant<Verdict, Signature>;

/// What a job has gathered on its way.
struct JobState {
  std::optional<Signature> signature;
  std::optional<BuildResult> build;
  std::optional<BuildResult> scalar_build;
  double queue_seconds = 0;
  double build_seconds = 0;
  int passed_on = 0;  // times that a lane left it to another because the request avoids that lane
  std::optional<VerdictStatus> screened;  // what the CPU screen said of one that is judged on its device all the same
};

using LaneRequest = std::variant<LaneJob, Task>;
struct Judged {
  Verdict verdict;
  RunnerSupply supply;
};
/// LaneFacts once, before anything is asked.
using LaneReply = std::variant<LaneFacts, Judged, Signature>;

// Decode returns the Status that was encoded, or kDataLoss.
std::string EncodeJobPayload(const JobPayload& payload);
absl::StatusOr<JobPayload> DecodeJobPayload(absl::string_view bytes);
std::string EncodeJobResult(const absl::StatusOr<JobResult>& result);
absl::StatusOr<JobResult> DecodeJobResult(absl::string_view bytes);
std::string EncodeJobState(const JobState& state);
absl::StatusOr<JobState> DecodeJobState(absl::string_view bytes);
std::string EncodeLaneRequest(const LaneRequest& request);
absl::StatusOr<LaneRequest> DecodeLaneRequest(absl::string_view bytes);
std::string EncodeLaneReply(const absl::StatusOr<LaneReply>& reply);
absl::StatusOr<LaneReply> DecodeLaneReply(absl::string_view bytes);

/// Length-prefixed messages over a stream socket. kUnavailable: the other end is gone. kDeadlineExceeded: nothing, or
/// not all of it, before the deadline; the stream is then of no further use.
absl::Status SendFrame(int fd, absl::string_view bytes, SteadyTime deadline);
absl::StatusOr<std::string> ReceiveFrame(int fd, SteadyTime deadline);

}  // namespace hone::verifier
