#pragma once

// The verifier as its users see it: domain structs in, verdicts out, gRPC hidden.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/signature.h"
#include "base/verdict.h"
#include "base/verify_request.h"

namespace hone::verifier {

struct ClientOptions {
  std::vector<std::string> endpoints;          // "host:port" or "unix:/path"; load is spread over them
  absl::Duration deadline = absl::Minutes(10); // of one verdict, queueing included
  int max_attempts = 5;                        // on kUnavailable only, with back-off
  int max_in_flight = 256;                     // of VerifyAll
  std::string token;                           // sent as a bearer token; empty: none
  std::string tls_ca;                          // PEM file of who signs the servers' certificates; empty: plaintext
  std::string tls_certificate, tls_key;        // PEM files, for servers that ask for a client's certificate
};

/// Requests that come one by one, while earlier ones are judged already.
class VerdictStream {
 public:
  /// Gives up what is still open; no verdict is handed out afterwards.
  virtual ~VerdictStream() = default;
  /// Does not wait. Requests count from 0.
  virtual void Submit(const VerifyRequest& request) = 0;
  /// After the last Submit: waits for every verdict. Status as of Client::VerifyAll.
  virtual absl::Status Finish() = 0;
};

/// Lanes judge again when it is dropped.
class LaneHold {
 public:
  virtual ~LaneHold() = default;
};

/// Thread-safe.
class Client {
 public:
  /// Connects lazily. kInvalidArgument: no endpoint, or one of another form. kNotFound: a TLS file is missing.
  static absl::StatusOr<std::unique_ptr<Client>> Create(ClientOptions options);
  virtual ~Client() = default;

  /// A failing candidate is a verdict; a Status is ours: kUnavailable, kDeadlineExceeded, kInvalidArgument (the task
  /// itself is unusable: names file, line and reason), kUnauthenticated, kResourceExhausted (queue or quota full).
  virtual absl::StatusOr<Verdict> Verify(const VerifyRequest& request) = 0;

  /// Verifies all over one stream; `on_verdict` is called from one thread in order of completion, with the request's
  /// index. A request that fails on our side gets a verdict of status kInfra with the reason.
  virtual absl::Status VerifyAll(absl::Span<const VerifyRequest> requests,
                                 const std::function<void(size_t index, const Verdict& verdict)>& on_verdict) = 0;

  /// As VerifyAll, for requests that are not all known yet. `on_verdict` is called from one thread, not the caller's. A client
  /// that has no streams of its own asks for all of them at Finish.
  virtual std::unique_ptr<VerdictStream> OpenStream(std::function<void(size_t index, const Verdict& verdict)> on_verdict);

  /// Returns when no lane of any endpoint judges, and none will before the hold is dropped or the connection lost. Requests are
  /// built and screened meanwhile. kPermissionDenied: the service does not allow it.
  virtual absl::StatusOr<std::unique_ptr<LaneHold>> HoldLanes() { return absl::UnimplementedError("this client cannot hold lanes"); }

  /// The typed entry point of a task's native candidates, by tracing its reference.
  virtual absl::StatusOr<Signature> DescribeTask(const Task& task) = 0;

  virtual absl::StatusOr<Capabilities> GetCapabilities() = 0;
};

/// Asks for everything at Finish.
class CollectedStream final : public VerdictStream {
 public:
  /// Borrows the client.
  CollectedStream(Client& client, std::function<void(size_t index, const Verdict& verdict)> on_verdict)
      : client_(client), on_verdict_(std::move(on_verdict)) {}
  void Submit(const VerifyRequest& request) override { requests_.push_back(request); }
  absl::Status Finish() override { return client_.VerifyAll(requests_, on_verdict_); }

 private:
  Client& client_;
  std::function<void(size_t index, const Verdict& verdict)> on_verdict_;
  std::vector<VerifyRequest> requests_;
};

inline std::unique_ptr<VerdictStream> Client::OpenStream(
    std::function<void(size_t index, const Verdict& verdict)> on_verdict) {
  return std::make_unique<CollectedStream>(*this, std::move(on_verdict));
}

}  // namespace hone::verifier
