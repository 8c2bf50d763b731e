#pragma once

// A verdict: what happened to a candidate, with evidence. A failing candidate is a result, never an absl::Status.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/protocol.h"

namespace hone {

enum class VerdictStatus {
  kOk,              // built, legal, right on every checked call
  kParse,           // no code, not UTF-8, too large, no entry point
  kForbidden,       // breaks the legality policy (static rules)
  kCompile,
  kCompileTimeout,
  kRuntime,         // device fault, bad launch, out-of-bounds access, crash, early exit
  kTimeout,
  kOom,
  kIncorrect,       // ran, wrong values; `correct_rate` in [0, 1)
  kCheat,           // caught at run time; `rule` says which
  kInfra,           // our failure: never scored, retried elsewhere
};

/// The first output element that differs.
struct Mismatch {
  std::string output;           // name in the signature
  std::vector<int64_t> index;
  double got = 0;
  double want = 0;
  double error_in_tolerances = 0;  // |got - want| / (atol + rtol |want|)
  std::string shape;            // sizes of the failing variant, "rows=3 cols=7"
  std::string diagnosis;        // one line where a pattern is plain, else empty
  friend bool operator==(const Mismatch&, const Mismatch&) = default;
};

/// One rule of docs/rules.md that spoke.
struct RuleHit {
  std::string rule;
  bool reject = false;   // else only flagged
  std::string evidence;
  friend bool operator==(const RuleHit&, const RuleHit&) = default;
};

/// A median with its 95 % interval.
struct Estimate {
  double median = 0;
  double low = 0;
  double high = 0;
  int samples = 0;
  friend bool operator==(const Estimate&, const Estimate&) = default;
};

/// Candidate against one baseline. Times are per call.
struct Timing {
  Baseline baseline = Baseline::kEager;
  Estimate speedup;              // paired ratios baseline / candidate
  double candidate_ns = 0;       // median
  double baseline_ns = 0;        // median
  int calls_per_round = 0;
  bool emulated = false;         // CPU backend: says nothing about a GPU
  std::vector<double> samples;   // paired ratios, when the protocol keeps them
  friend bool operator==(const Timing&, const Timing&) = default;
};

/// Seconds a candidate spent in each phase.
struct PhaseSeconds {
  double queue = 0;
  double build = 0;
  double check = 0;
  double time = 0;
  double lane_overhead = 0;  // of check and time: beyond making, running and comparing the trials
  friend bool operator==(const PhaseSeconds&, const PhaseSeconds&) = default;
};

/// One kernel of a profiled call, over all of its launches.
struct KernelProfile {
  std::string kernel;      // its name, without parameters
  int64_t launches = 0;    // in one call
  double time_ns = 0;      // of them all, as the profiler measures them, with cold caches
  double share = 0;        // of the call's device time, in [0, 1]
  double occupancy = 0;    // warps at work, as a share of those that the device has room for; in [0, 1]
  double bytes = 0;        // to and from the device's memory
  double flop = 0;         // of scalar arithmetic in half, single and double precision; matrix units are not counted
  double roofline = 0;     // share, in [0, 1], of the rate at which the device's memory or arithmetic could have served it
  friend bool operator==(const KernelProfile&, const KernelProfile&) = default;
};

struct Verdict {
  VerdictStatus status = VerdictStatus::kInfra;
  std::string message;             // one line for a person: the first error, the reason
  std::string compiler_output;     // trimmed to what a model can use, paths stripped
  double correct_rate = 0;         // q: share of checked calls that were right
  std::optional<Mismatch> mismatch;
  std::vector<RuleHit> rules;
  std::vector<Timing> timings;     // one per baseline of the protocol; empty unless kOk
  /// Of a kOk candidate: the share, in [0, 1], of the device time of its checked calls that its own kernels took, the
  /// rest being a library's or the framework's; where a device cannot be traced, the share of the reference's compute
  /// operators that did not reach a library. Unset: not measured. A native candidate has nothing but its own kernels to
  /// compute with (a library is refused at build), so it is 1 by construction unless the task allows library kernels.
  std::optional<double> coverage;
  PhaseSeconds seconds;
  std::string protocol;            // Protocol::id
  std::string device;              // "cpu", "NVIDIA H200", ...
  std::string lane;                // that judged it, "<node>/cuda:0": one device of one process; empty: none did
  std::string confirmed_on;        // lane of a second measurement that agreed; empty: measured once
  std::string toolchain;           // compiler and its version; "musa-compat/cuda"
  std::string sandbox;             // "bubblewrap", or "none" loudly
  std::string seed_id;             // names the secret seed without revealing it
  double clock_mhz = 0;            // read, never set; 0: unknown
  bool from_cache = false;
  bool screened_on_cpu = false;    // a device candidate that failed on the CPU backend first
  std::string sanitizer_report;    // of a fault or a wrong answer, when the protocol asks for it and the device has a checker
  std::vector<KernelProfile> profile;  // by descending share, when the protocol asks for it; of a checked call of the timed shape

  bool ok() const { return status == VerdictStatus::kOk; }
  /// The timing that the protocol's first baseline gave, if any.
  const Timing* speed() const { return timings.empty() ? nullptr : &timings.front(); }
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// MooreEval's five classes, a view on the status: compile, runtime, correctness, cheating, infra; "ok" besides.
absl::string_view MooreClass(VerdictStatus status);
absl::string_view Name(VerdictStatus status);  // "OK", "COMPILE_TIMEOUT", ...
std::optional<VerdictStatus> ParseVerdictStatus(absl::string_view name);

}  // namespace hone
