#include "verifier/service/wire.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/steady_time.h"
#include "base/strings.h"
#include "hone/internal/lane.pb.h"
#include "proto/convert.h"

namespace hone::verifier {
namespace {

using proto::FromWire;
using proto::ToWire;

constexpr uint32_t kMaxFrameBytes = 256u << 20;

template <class Message>
absl::StatusOr<Message> Parse(absl::string_view bytes) {
  Message message;
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return message;
  return absl::DataLossError(absl::StrCat(bytes.size(), " bytes that are no ", message.GetTypeName()));
}

void BuildToWire(const BuildResult& from, internal::BuildResult* to) {
  to->set_status(ToWire(from.status));
  to->set_artefact(from.artefact);
  to->set_checked_artefact(from.checked_artefact);
  to->set_message(ToUtf8(from.message));
  to->set_compiler_output(ToUtf8(from.compiler_output));
  to->set_toolchain(from.toolchain);
  for (const RuleHit& rule : from.rules) ToWire(rule, to->add_rules());
  to->set_from_cache(from.from_cache);
  to->set_seconds(from.seconds);
  to->set_format(ToWire(from.format));
}

absl::Status BuildFromWire(const internal::BuildResult& from, BuildResult* to) {
  HONE_RETURN_IF_ERROR(FromWire(from.status(), &to->status));
  to->artefact = from.artefact();
  to->checked_artefact = from.checked_artefact();
  to->message = from.message();
  to->compiler_output = from.compiler_output();
  to->toolchain = from.toolchain();
  to->rules.clear();
  for (const v1::RuleHit& rule : from.rules()) HONE_RETURN_IF_ERROR(FromWire(rule, &to->rules.emplace_back()));
  to->from_cache = from.from_cache();
  to->seconds = from.seconds();
  HONE_RETURN_IF_ERROR(FromWire(from.format(), &to->format));
  return absl::OkStatus();
}

void StatusToWire(const absl::Status& from, internal::Failure* to) {
  to->set_code(static_cast<int>(from.code()));
  to->set_message(ToUtf8(from.message()));
}

absl::Status StatusFromWire(const internal::Failure& from) {
  if (from.code() == 0) return absl::DataLossError("an empty message");
  return absl::Status(static_cast<absl::StatusCode>(from.code()), from.message());
}

void LaneJobToWire(const LaneJob& from, internal::LaneJob* to) {
  ToWire(from.task, to->mutable_task());
  ToWire(from.signature, to->mutable_signature());
  BuildToWire(from.build, to->mutable_build());
  BuildToWire(from.scalar_build, to->mutable_scalar_build());
  ToWire(from.protocol, to->mutable_protocol());
  to->set_trace_id(from.trace_id);
}

absl::Status LaneJobFromWire(const internal::LaneJob& from, LaneJob* to) {
  HONE_RETURN_IF_ERROR(FromWire(from.task(), &to->task));
  HONE_RETURN_IF_ERROR(FromWire(from.signature(), &to->signature));
  HONE_RETURN_IF_ERROR(BuildFromWire(from.build(), &to->build));
  HONE_RETURN_IF_ERROR(BuildFromWire(from.scalar_build(), &to->scalar_build));
  HONE_RETURN_IF_ERROR(FromWire(from.protocol(), &to->protocol));
  to->trace_id = from.trace_id();
  return absl::OkStatus();
}

/// Reads one alternative of a oneof into a variant.
template <class Domain, class Message, class Variant>
absl::StatusOr<Variant> Alternative(const Message& message) {
  Domain value;
  HONE_RETURN_IF_ERROR(FromWire(message, &value));
  return Variant(std::move(value));
}

}  // namespace

std::string EncodeJobPayload(const JobPayload& payload) {
  internal::JobPayload message;
  if (const auto* verify = std::get_if<VerifyRequest>(&payload)) {
    ToWire(*verify, message.mutable_verify());
  } else {
    ToWire(std::get<Task>(payload), message.mutable_describe());
  }
  return message.SerializeAsString();
}

absl::StatusOr<JobPayload> DecodeJobPayload(absl::string_view bytes) {
  HONE_ASSIGN_OR_RETURN(const auto message, Parse<internal::JobPayload>(bytes));
  if (message.has_verify()) return Alternative<VerifyRequest, v1::VerifyRequest, JobPayload>(message.verify());
  return Alternative<Task, v1::Task, JobPayload>(message.describe());
}

std::string EncodeJobResult(const absl::StatusOr<JobResult>& result) {
  internal::JobResult message;
  if (!result.ok()) {
    StatusToWire(result.status(), message.mutable_failure());
  } else if (const auto* verdict = std::get_if<Verdict>(&*result)) {
    ToWire(*verdict, message.mutable_verdict());
  } else {
    ToWire(std::get<Signature>(*result), message.mutable_signature());
  }
  return message.SerializeAsString();
}

absl::StatusOr<JobResult> DecodeJobResult(absl::string_view bytes) {
  HONE_ASSIGN_OR_RETURN(const auto message, Parse<internal::JobResult>(bytes));
  if (message.has_verdict()) return Alternative<Verdict, v1::Verdict, JobResult>(message.verdict());
  if (message.has_signature()) return Alternative<Signature, v1::Signature, JobResult>(message.signature());
  return StatusFromWire(message.failure());
}

std::string EncodeJobState(const JobState& state) {
  internal::JobState message;
  if (state.signature) ToWire(*state.signature, message.mutable_signature());
  if (state.build) BuildToWire(*state.build, message.mutable_build());
  if (state.scalar_build) BuildToWire(*state.scalar_build, message.mutable_scalar_build());
  message.set_queue_seconds(state.queue_seconds);
  message.set_build_seconds(state.build_seconds);
  message.set_passed_on(state.passed_on);
  if (state.screened) message.set_screened(ToWire(*state.screened));
  return message.SerializeAsString();
}

absl::StatusOr<JobState> DecodeJobState(absl::string_view bytes) {
  HONE_ASSIGN_OR_RETURN(const auto message, Parse<internal::JobState>(bytes));
  JobState state;
  if (message.has_signature()) HONE_RETURN_IF_ERROR(FromWire(message.signature(), &state.signature.emplace()));
  if (message.has_build()) HONE_RETURN_IF_ERROR(BuildFromWire(message.build(), &state.build.emplace()));
  if (message.has_scalar_build()) {
    HONE_RETURN_IF_ERROR(BuildFromWire(message.scalar_build(), &state.scalar_build.emplace()));
  }
  state.queue_seconds = message.queue_seconds();
  state.build_seconds = message.build_seconds();
  state.passed_on = message.passed_on();
  if (message.screened() != v1::VERDICT_STATUS_UNSPECIFIED) {
    HONE_RETURN_IF_ERROR(FromWire(message.screened(), &state.screened.emplace()));
  }
  return state;
}

std::string EncodeLaneRequest(const LaneRequest& request) {
  internal::LaneRequest message;
  if (const auto* job = std::get_if<LaneJob>(&request)) {
    LaneJobToWire(*job, message.mutable_judge());
  } else {
    ToWire(std::get<Task>(request), message.mutable_describe());
  }
  return message.SerializeAsString();
}

absl::StatusOr<LaneRequest> DecodeLaneRequest(absl::string_view bytes) {
  HONE_ASSIGN_OR_RETURN(const auto message, Parse<internal::LaneRequest>(bytes));
  if (!message.has_judge()) return Alternative<Task, v1::Task, LaneRequest>(message.describe());
  LaneJob job;
  HONE_RETURN_IF_ERROR(LaneJobFromWire(message.judge(), &job));
  return LaneRequest(std::move(job));
}

std::string EncodeLaneReply(const absl::StatusOr<LaneReply>& reply) {
  internal::LaneReply message;
  if (!reply.ok()) {
    StatusToWire(reply.status(), message.mutable_failure());
  } else if (const auto* facts = std::get_if<LaneFacts>(&*reply)) {
    message.mutable_ready()->set_device(facts->device);
    message.mutable_ready()->set_sandbox(facts->sandbox);
  } else if (const auto* judged = std::get_if<Judged>(&*reply)) {
    ToWire(judged->verdict, message.mutable_verdict());
    message.mutable_supply()->set_ahead(judged->supply.ahead);
    message.mutable_supply()->set_waited_s(judged->supply.waited_s);
  } else {
    ToWire(std::get<Signature>(*reply), message.mutable_signature());
  }
  return message.SerializeAsString();
}

absl::StatusOr<LaneReply> DecodeLaneReply(absl::string_view bytes) {
  HONE_ASSIGN_OR_RETURN(const auto message, Parse<internal::LaneReply>(bytes));
  if (message.has_ready()) return LaneReply(LaneFacts{message.ready().device(), message.ready().sandbox()});
  if (message.has_signature()) return Alternative<Signature, v1::Signature, LaneReply>(message.signature());
  if (!message.has_verdict()) return StatusFromWire(message.failure());
  Judged judged;
  HONE_RETURN_IF_ERROR(FromWire(message.verdict(), &judged.verdict));
  judged.supply = {message.supply().ahead(), message.supply().waited_s()};
  return LaneReply(std::move(judged));
}

// ----------------------------------------------------------------------------------------------------------- frames

namespace {

absl::Status WaitFor(int fd, short events, SteadyTime deadline) {
  while (true) {
    const absl::Duration left = std::min(deadline - SteadyTime::Now(), absl::Hours(1));
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("no answer before the deadline");
    pollfd poll_fd{fd, events, 0};
    const int ready = poll(&poll_fd, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (ready > 0) return absl::OkStatus();  // also when the other end hung up: the transfer will say so
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "waiting for a socket");
  }
}

absl::Status Gone() { return absl::UnavailableError("the other end is gone"); }

absl::Status SendAll(int fd, const char* data, size_t size, SteadyTime deadline) {
  while (size > 0) {
    const ssize_t sent = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      data += sent;
      size -= static_cast<size_t>(sent);
    } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      HONE_RETURN_IF_ERROR(WaitFor(fd, POLLOUT, deadline));
    } else if (sent < 0 && errno != EINTR) {
      return Gone();
    }
  }
  return absl::OkStatus();
}

absl::Status ReceiveAll(int fd, char* data, size_t size, SteadyTime deadline) {
  while (size > 0) {
    const ssize_t received = recv(fd, data, size, MSG_DONTWAIT);
    if (received > 0) {
      data += received;
      size -= static_cast<size_t>(received);
    } else if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      HONE_RETURN_IF_ERROR(WaitFor(fd, POLLIN, deadline));
    } else if (received == 0 || errno != EINTR) {
      return Gone();
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SendFrame(int fd, absl::string_view bytes, SteadyTime deadline) {
  HONE_CHECK(bytes.size() <= kMaxFrameBytes);
  const auto size = static_cast<uint32_t>(bytes.size());
  std::string frame(sizeof(size), '\0');
  std::memcpy(frame.data(), &size, sizeof(size));
  frame.append(bytes.data(), bytes.size());
  return SendAll(fd, frame.data(), frame.size(), deadline);
}

absl::StatusOr<std::string> ReceiveFrame(int fd, SteadyTime deadline) {
  uint32_t size = 0;
  HONE_RETURN_IF_ERROR(ReceiveAll(fd, reinterpret_cast<char*>(&size), sizeof(size), deadline));
  if (size > kMaxFrameBytes) return absl::DataLossError(absl::StrCat("a frame of ", size, " bytes"));
  std::string bytes(size, '\0');
  HONE_RETURN_IF_ERROR(ReceiveAll(fd, bytes.data(), size, deadline));
  return bytes;
}

}  // namespace hone::verifier
