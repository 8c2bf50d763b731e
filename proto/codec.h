#pragma once

// Domain structs as bytes: the wire form of hone.v1 without its generated headers, for everything that stores or sends
// them outside a gRPC call (queue records, result cache, lane processes, learner messages).

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/candidate.h"
#include "base/episode.h"
#include "base/protocol.h"
#include "base/signature.h"
#include "base/task.h"
#include "base/verdict.h"
#include "base/verify_request.h"

namespace hone::proto {

/// The bytes of the message of the same name. Equal structs give equal bytes in one build (maps are sorted), so that
/// the bytes may be hashed into content keys; across versions only Decode(Encode(x)) == x is promised.
template <class Struct>
std::string Encode(const Struct& value);

/// kInvalidArgument: not such a message, or an enum value that this version does not know (names the field).
template <class Struct>
absl::StatusOr<Struct> Decode(absl::string_view bytes);

// Instantiated for these.
#define HONE_PROTO_CODEC(Struct)                      \
  extern template std::string Encode(const Struct&);  \
  extern template absl::StatusOr<Struct> Decode(absl::string_view bytes)
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
#undef HONE_PROTO_CODEC

}  // namespace hone::proto
