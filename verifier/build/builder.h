#pragma once

// The build stage: a candidate's source becomes artefacts that a runner can load, in a sandbox, on CPU cores only.
// Artefacts live in the content-addressed store (verifier/cache) keyed by source, signature, backend, toolchain and
// flags; two equal requests at the same time compile once.

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/candidate.h"
#include "base/signature.h"
#include "base/task.h"
#include "base/verdict.h"

namespace hone::verifier {

struct BuildRequest {
  Candidate candidate;
  Signature signature;
  LegalityPolicy legality;        // of the task
  absl::Duration timeout = absl::Seconds(120);
};

struct BuildResult {
  Format format = Format::kNative;            // which runner loads the artefact
  VerdictStatus status = VerdictStatus::kOk;  // kOk, kParse, kForbidden, kCompile, kCompileTimeout
  std::string artefact;          // path of what is timed: a shared object, or a bundle (torch_bundle.h)
  std::string checked_artefact;  // path of the one built with array bounds checks; equals `artefact` where nothing to check
  std::string message;           // first error, one line
  std::string compiler_output;   // trimmed
  std::string toolchain;         // "g++ 12.2.0 (emulated CUDA)"
  std::vector<RuleHit> rules;
  bool from_cache = false;
  double seconds = 0;
};

/// Thread-safe; each call blocks for one compile. The caller bounds the parallelism (build slots).
class Builder {
 public:
  virtual ~Builder() = default;
  /// A source that does not compile is a result; a Status is ours (no compiler: kFailedPrecondition, names the command).
  virtual absl::StatusOr<BuildResult> Build(const BuildRequest& request) = 0;

  /// What Build would reject by the candidate's text alone, without a signature: known before anybody has described the task,
  /// which costs a lane up to half a minute. Nothing: it has to be built, or this builder cannot tell.
  virtual absl::StatusOr<std::optional<BuildResult>> RejectUnbuilt(const BuildRequest&) { return std::nullopt; }

  /// What BuildResult::toolchain will say for this backend; empty when there is none. Part of every cache key.
  virtual std::string Toolchain(Backend backend) const = 0;
};

}  // namespace hone::verifier
