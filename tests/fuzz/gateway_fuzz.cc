// Any bytes as the body of a request over HTTP, in our shape and in KernelGYM's: refused as the request's fault, or a request
// that is whole and travels.

#include <cstdlib>
#include <string>

#include "hone/v1/verifier.pb.h"
#include "proto/codec.h"
#include "verifier/service/json_body.h"
#include "verifier/service/kernelgym.h"
#include "verifier/service/read_request.h"

namespace {

void Check(const absl::StatusOr<hone::VerifyRequest>& request) {
  if (!request.ok()) {
    if (request.status().code() != absl::StatusCode::kInvalidArgument) std::abort();
    return;
  }
  if (request->task.reference.empty()) std::abort();
  const auto again = hone::proto::Decode<hone::VerifyRequest>(hone::proto::Encode(*request));
  if (!again.ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hone::verifier;
  const std::string body(reinterpret_cast<const char*>(data), size);
  hone::v1::VerifyRequest message;
  if (ParseVerifyRequest(body, &message).ok()) Check(ReadRequest(std::move(message)));
  if (const auto json = ParseBody(body); json.ok()) Check(ReadEvaluation(*json));
  return 0;
}
