#pragma once

// The verifier over HTTP and JSON. Two sets of paths; GET /openapi.json describes both.
//
//   /v1/verify, /v1/capabilities     hone.v1's own messages as JSON, source texts as plain strings
//   /evaluate, /evaluate/batch, /workflow/submit, /workflow/results/{id}, /status/{id}, /results/{id}, /tasks/{id},
//   /health, /metrics, /queue/status, /workers/status
//                                    the shapes of KernelGYM (arXiv 2602.05885), so that a job changes a URL and no code
//
// What differs from KernelGYM behind its shapes: reference and candidate are timed in pairs on one device, inputs are
// secret, and a failure of ours is 503 with Retry-After, never a failed task. Its tolerance (1e-2) is kept. A field
// "format" (native, torch, triton) may be added; without it "backend": "triton" is triton, "cuda" torch, and "cpu" native.
//
// Bodies: at most max_body_bytes, in JSON of at most 64 levels, or a 4xx that says so; all bodies that are being read or
// worked on together at most memory_bytes, or 503. A request holds one thread until its verdict.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/log.h"
#include "verifier/cache/shared_bytes.h"
#include "verifier/queue/queue.h"
#include "verifier/service/access.h"
#include "verifier/service/engine.h"
#include "verifier/service/metrics.h"

namespace hone::verifier {

struct HttpGatewayOptions {
  std::string address;                       // host:port
  int threads = 128;
  int64_t max_body_bytes = 16 << 20;
  int64_t memory_bytes = int64_t{512} << 20;
  absl::Duration patience = absl::Minutes(15);  // of one request, then 504
  std::string tls_certificate, tls_key;      // PEM files; empty: plain HTTP
};

class HttpGateway {
 public:
  /// The dependencies outlive it; `access` may be null (everybody may), and so may `results` (finished tasks of
  /// KernelGYM's ids, shared by the fronts of a farm; without it this process keeps 64 MB of them).
  /// kFailedPrecondition: cannot listen there, or a TLS file is unusable.
  static absl::StatusOr<std::unique_ptr<HttpGateway>> Start(const HttpGatewayOptions& options, Engine& engine,
                                                            const Queue& queue, const Metrics& metrics,
                                                            AccessControl* access, SharedBytes* results, Logger log);
  virtual ~HttpGateway() = default;
  virtual int port() const = 0;
};

}  // namespace hone::verifier
