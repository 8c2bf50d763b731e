#include "proto/codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/convert.h"

namespace hone::proto {
namespace {

template <class Struct>
struct WireOf;
template <> struct WireOf<Task> { using Type = v1::Task; };
template <> struct WireOf<Candidate> { using Type = v1::Candidate; };
template <> struct WireOf<Protocol> { using Type = v1::Protocol; };
template <> struct WireOf<Signature> { using Type = v1::Signature; };
template <> struct WireOf<Verdict> { using Type = v1::Verdict; };
template <> struct WireOf<Turn> { using Type = v1::Turn; };
template <> struct WireOf<Episode> { using Type = v1::Episode; };
template <> struct WireOf<Group> { using Type = v1::Group; };
template <> struct WireOf<VerifyRequest> { using Type = v1::VerifyRequest; };
template <> struct WireOf<Capabilities> { using Type = v1::Capabilities; };

std::string SerializeSorted(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&coded);
  coded.Trim();
  return bytes;
}

}  // namespace

template <class Struct>
std::string Encode(const Struct& value) {
  typename WireOf<Struct>::Type message;
  ToWire(value, &message);
  return SerializeSorted(message);
}

template <class Struct>
absl::StatusOr<Struct> Decode(absl::string_view bytes) {
  typename WireOf<Struct>::Type message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::InvalidArgumentError(absl::StrCat(bytes.size(), " bytes that are no ", message.GetTypeName()));
  }
  Struct value;
  HONE_RETURN_IF_ERROR(FromWire(message, &value));
  return value;
}

#define HONE_PROTO_CODEC(Struct)               \
  template std::string Encode(const Struct&);  \
  template absl::StatusOr<Struct> Decode(absl::string_view bytes)
HONE_PROTO_CODEC(Task);
HONE_PROTO_CODEC(Candidate);
HONE_PROTO_CODEC(Protocol);
HONE_PROTO_CODEC(Signature);
HONE_PROTO_CODEC(Verdict);
HONE_PROTO_CODEC(Turn);
HONE_PROTO_CODEC(Episode);
HONE_PROTO_CODEC(Group);
HONE_PROTO_CODEC(VerifyRequest);
HONE_PROTO_CODEC(Capabilities);

}  // namespace hone::proto
