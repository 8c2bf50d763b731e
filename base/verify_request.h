#pragma once

#include <string>
#include <vector>

#include "base/candidate.h"
#include "base/protocol.h"
#include "base/task.h"

namespace hone {

/// Scheduling class: an evaluation a person waits for overtakes a training batch.
enum class Priority { kLow, kNormal, kHigh };

struct VerifyRequest {
  Task task;
  Candidate candidate;
  Protocol protocol;
  Priority priority = Priority::kNormal;
  std::string key;        // idempotency: the same key returns the same verdict; empty: the content decides
  std::string trace_id;   // carried into every log line of the job
  bool use_cache = true;  // false: measure again even if this content has a verdict
  /// Verdict::lane of a verdict that is to be confirmed: measured again, cache or not, by another lane of the device's
  /// kind where there is one. Who asks sees by the new verdict's lane whether there was.
  std::string avoid_lane;
  friend bool operator==(const VerifyRequest&, const VerifyRequest&) = default;
};

/// What a verifier can do, for clients and `hone doctor`.
struct Capabilities {
  std::string version;
  std::vector<std::string> devices;    // "cpu", "NVIDIA H200"
  std::vector<std::string> backends;   // "cpu", "cuda"
  std::vector<std::string> toolchains; // of each backend that is built for: "musa: musa-compat/cuda nvcc 13.0.88 sm_90"
  std::vector<std::string> formats;    // "native", "torch"
  std::vector<std::string> protocols;
  std::string sandbox;
  int build_slots = 0;
  int lanes = 0;
  friend bool operator==(const Capabilities&, const Capabilities&) = default;
};

}  // namespace hone
