#pragma once

// Domain structs to and from the generated messages. For sources that speak gRPC only: this header brings .pb.h files,
// which must never meet torch's headers. Others use proto/codec.h.

#include "absl/status/status.h"
#include "base/episode.h"
#include "base/signature.h"
#include "base/verdict.h"
#include "base/verify_request.h"
#include "hone/v1/types.pb.h"
#include "hone/v1/verifier.pb.h"

namespace hone::proto {

// Every field of the struct is written; `to` must be empty. Text that quotes a candidate (messages, compiler output,
// evidence) is made valid UTF-8, since proto3 strings must be; source texts are bytes and travel as they are.
void ToWire(const Task& from, v1::Task* to);
void ToWire(const Candidate& from, v1::Candidate* to);
void ToWire(const Protocol& from, v1::Protocol* to);
void ToWire(const Signature& from, v1::Signature* to);
void ToWire(const RuleHit& from, v1::RuleHit* to);
void ToWire(const Verdict& from, v1::Verdict* to);
void ToWire(const Turn& from, v1::Turn* to);
void ToWire(const Episode& from, v1::Episode* to);
void ToWire(const Group& from, v1::Group* to);
void ToWire(const VerifyRequest& from, v1::VerifyRequest* to);
void ToWire(const Capabilities& from, v1::Capabilities* to);
v1::VerdictStatus ToWire(VerdictStatus status);
v1::Format ToWire(Format format);

// kInvalidArgument names the field whose enum value is UNSPECIFIED or unknown. Every field of `to` is replaced.
absl::Status FromWire(const v1::Task& from, Task* to);
absl::Status FromWire(const v1::Candidate& from, Candidate* to);
absl::Status FromWire(const v1::Protocol& from, Protocol* to);
absl::Status FromWire(const v1::Signature& from, Signature* to);
absl::Status FromWire(const v1::RuleHit& from, RuleHit* to);
absl::Status FromWire(const v1::Verdict& from, Verdict* to);
absl::Status FromWire(const v1::Turn& from, Turn* to);
absl::Status FromWire(const v1::Episode& from, Episode* to);
absl::Status FromWire(const v1::Group& from, Group* to);
absl::Status FromWire(const v1::VerifyRequest& from, VerifyRequest* to);
absl::Status FromWire(const v1::Capabilities& from, Capabilities* to);
absl::Status FromWire(v1::VerdictStatus from, VerdictStatus* to);
absl::Status FromWire(v1::Format from, Format* to);
absl::Status FromWire(v1::DType from, DType* to);

}  // namespace hone::proto
