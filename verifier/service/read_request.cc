#include "verifier/service/read_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "hone/v1/verifier.pb.h"
#include "proto/convert.h"
#include "verifier/rules/rule.h"

namespace hone::verifier {
namespace {

/// A client in another language need not repeat our defaults.
void FillDefaults(v1::Task* task) {
  if (task->dtype() == v1::DTYPE_UNSPECIFIED) task->set_dtype(v1::DTYPE_FLOAT32);
  if (task->split() == v1::SPLIT_UNSPECIFIED) task->set_split(v1::SPLIT_TRAIN);
  if (task->profiles().empty()) task->add_profiles(v1::VALUE_PROFILE_AS_GIVEN);
  DType dtype;
  if (!task->has_tolerance() && proto::FromWire(task->dtype(), &dtype).ok()) {
    const Tolerance tolerance = DefaultTolerance(dtype);
    task->mutable_tolerance()->set_atol(tolerance.atol);
    task->mutable_tolerance()->set_rtol(tolerance.rtol);
  }
}

/// Absent: the default. Only an id: the shipped protocol of that name.
absl::Status FillDefaults(v1::Protocol* protocol) {
  v1::Protocol only_id;
  only_id.set_id(protocol->id());
  if (protocol->ByteSizeLong() != only_id.ByteSizeLong()) return absl::OkStatus();
  const absl::StatusOr<Protocol> shipped = ProtocolById(protocol->id().empty() ? Protocol().id : protocol->id());
  if (!shipped.ok()) return absl::InvalidArgumentError(absl::StrCat("protocol.id: ", shipped.status().message()));
  protocol->Clear();
  proto::ToWire(*shipped, protocol);
  return absl::OkStatus();
}

absl::Status CheckTask(const Task& task) {
  if (task.reference.empty()) return absl::InvalidArgumentError("task.reference: empty");
  return CheckPolicy(task.legality);
}

}  // namespace

absl::StatusOr<VerifyRequest> ReadRequest(v1::VerifyRequest&& message) {
  FillDefaults(message.mutable_task());
  HONE_RETURN_IF_ERROR(FillDefaults(message.mutable_protocol()));
  v1::Candidate* candidate = message.mutable_candidate();
  if (candidate->format() == v1::FORMAT_UNSPECIFIED) candidate->set_format(v1::FORMAT_NATIVE);
  VerifyRequest request;
  HONE_RETURN_IF_ERROR(proto::FromWire(message, &request));
  HONE_RETURN_IF_ERROR(CheckTask(request.task));
  return request;
}

absl::StatusOr<Task> ReadTask(v1::Task&& message) {
  FillDefaults(&message);
  Task task;
  HONE_RETURN_IF_ERROR(proto::FromWire(message, &task));
  HONE_RETURN_IF_ERROR(CheckTask(task));
  return task;
}

}  // namespace hone::verifier
