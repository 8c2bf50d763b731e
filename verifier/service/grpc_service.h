#pragma once

// hone.v1.Verifier over gRPC's callback API: no thread waits for a call. Translates, hands to the engine, and makes
// sure that slow, vanishing and flooding clients cost nobody else anything:
//   - a stream is read only while fewer than max_stream_jobs of its requests are unanswered or unread by the client;
//   - with access control every call needs a token, and every open request, also of a stream, a permit;
//   - a client that goes away abandons its waits, and what has not started is dropped.

#include <memory>

#include "verifier/service/access.h"
#include "verifier/service/engine.h"

namespace grpc {
class Service;
}

namespace hone::verifier {

struct GrpcServiceOptions {
  int max_stream_jobs = 1024;
  bool holds = false;              // clients may keep all lanes from judging
  AccessControl* access = nullptr;  // outlives the service; null: everybody may use it
};

/// `engine` must outlive the service and all its calls.
std::unique_ptr<grpc::Service> MakeGrpcService(Engine& engine, const GrpcServiceOptions& options);

}  // namespace hone::verifier
