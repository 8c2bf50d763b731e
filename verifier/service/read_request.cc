#include "verifier/service/read_request.h"

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

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

/// The path of the first message that holds a field which this version does not know; nothing: there is none. A newer client
/// may mean by it what changes the verdict.
std::optional<std::string> HolderOfUnknown(const google::protobuf::Message& message, const std::string& path) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (!reflection.GetUnknownFields(message).empty()) {
    return absl::StrCat(path, ": field ", reflection.GetUnknownFields(message).field(0).number());
  }
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const google::protobuf::FieldDescriptor* field : fields) {
    if (field->cpp_type() != field->CPPTYPE_MESSAGE) continue;
    const std::string below = absl::StrCat(path, ".", field->name());
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const auto& part = field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i) : reflection.GetMessage(message, field);
      if (auto found = HolderOfUnknown(part, below)) return found;
    }
  }
  return std::nullopt;
}

absl::Status CheckKnown(const google::protobuf::Message& message, const char* name) {
  const std::optional<std::string> unknown = HolderOfUnknown(message, name);
  if (!unknown) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(*unknown, " is of a newer schema than this verifier knows"));
}

absl::Status CheckTask(const Task& task) {
  if (task.reference.empty()) return absl::InvalidArgumentError("task.reference: empty");
  return CheckPolicy(task.legality);
}

}  // namespace

absl::StatusOr<VerifyRequest> ReadRequest(v1::VerifyRequest&& message) {
  HONE_RETURN_IF_ERROR(CheckKnown(message, "request"));
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
  HONE_RETURN_IF_ERROR(CheckKnown(message, "task"));
  FillDefaults(&message);
  Task task;
  HONE_RETURN_IF_ERROR(proto::FromWire(message, &task));
  HONE_RETURN_IF_ERROR(CheckTask(task));
  return task;
}

}  // namespace hone::verifier
