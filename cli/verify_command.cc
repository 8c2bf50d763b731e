// `hone verify`: one task, one candidate, one verdict, for a person.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/journal.h"
#include "base/status_macros.h"
#include "base/task_suite.h"
#include "base/verify_request.h"
#include "cli/command.h"
#include "cli/report_error.h"
#include "cli/verifier_access.h"

namespace hone::cli {
namespace {

// The verifier itself says PARSE to anything this large; beyond, a file was surely named by mistake.
constexpr int64_t kMaxCandidateBytes = 32 << 20;

struct VerifyOptions {
  std::string task;
  std::string candidate;
  std::string device;
  std::string musa_toolchain;
  std::string protocol = "hone-v1";
  VerifierChoice verifier;
  bool json = false;
  bool again = false;
  bool sanitize = false;
  bool profile = false;
};

/// A MUSA source asks for MUSA's device; everything else runs on the CPU unless told otherwise.
std::string DeviceOf(const VerifyOptions& options) {
  if (!options.device.empty()) return options.device;
  return absl::EndsWith(options.candidate, ".mu") ? "musa" : "cpu";
}

absl::StatusOr<Candidate> LoadCandidate(const VerifyOptions& options) {
  Candidate candidate;
  candidate.backend = *ParseBackend(DeviceOf(options));  // checked by the command line
  if (absl::EndsWith(options.candidate, ".cu") || absl::EndsWith(options.candidate, ".mu")) {
    candidate.format = Format::kNative;
  } else if (absl::EndsWith(options.candidate, ".py")) {
    candidate.format = Format::kTorch;
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat(options.candidate, ": a candidate's name ends in .cu or .mu (native) or .py (torch)"));
  }
  absl::StatusOr<std::string> source = ReadFile(options.candidate, kMaxCandidateBytes);
  if (absl::IsResourceExhausted(source.status())) return absl::InvalidArgumentError(source.status().message());
  HONE_RETURN_IF_ERROR(source.status());
  candidate.source = *std::move(source);
  return candidate;
}

absl::StatusOr<Verdict> Ask(const VerifyOptions& options, const VerifyRequest& request) {
  std::vector<std::string> settings = {"lanes=1", absl::StrCat("devices=[", DeviceOf(options), "]"), "screen=off"};
  if (!options.musa_toolchain.empty()) settings.push_back("musa_toolchain=" + options.musa_toolchain);
  HONE_ASSIGN_OR_RETURN(const VerifierAccess verifier, OpenVerifier(options.verifier, settings));
  return verifier.client->Verify(request);
}

/// What the verifier says of a task by its id, said of the file where the task stands.
absl::Status InTaskFile(const absl::Status& status, const std::string& file, const std::string& task_id) {
  absl::string_view what = status.message();
  if (!absl::IsInvalidArgument(status) || !FileExists(file) || !absl::ConsumePrefix(&what, absl::StrCat("task ", task_id))) {
    return status;
  }
  return absl::InvalidArgumentError(absl::ConsumePrefix(&what, ", line ") ? absl::StrCat(file, ":", what)
                                                                         : absl::StrCat(file, what));
}

// ---- For people. ----

std::string HumanTime(double nanoseconds) {
  if (nanoseconds < 1e3) return absl::StrFormat("%.0f ns", nanoseconds);
  if (nanoseconds < 1e6) return absl::StrFormat("%.3g us", nanoseconds / 1e3);
  if (nanoseconds < 1e9) return absl::StrFormat("%.3g ms", nanoseconds / 1e6);
  return absl::StrFormat("%.3g s", nanoseconds / 1e9);
}

absl::string_view BaselineWords(Baseline baseline) {
  switch (baseline) {
    case Baseline::kEager: return "PyTorch eager";
    case Baseline::kCompile: return "torch.compile";
    case Baseline::kGraph: return "a CUDA graph of PyTorch eager";
    case Baseline::kScalar: return "the task's scalar kernel";
  }
  return "";
}

void PrintField(absl::string_view name, absl::string_view value) {
  if (!value.empty()) absl::PrintF("  %-10s %s\n", name, value);
}

void PrintTiming(const Timing& timing) {
  const absl::string_view emulated = timing.emulated ? "   emulated: says nothing about a GPU" : "";
  PrintField("speedup", absl::StrFormat("%.3gx over %s, 95%% interval [%.3g, %.3g]%s", timing.speedup.median,
                                        BaselineWords(timing.baseline), timing.speedup.low, timing.speedup.high, emulated));
  PrintField("time", absl::StrFormat("%s against %s, medians of %d rounds of %d calls", HumanTime(timing.candidate_ns),
                                     HumanTime(timing.baseline_ns), timing.speedup.samples, timing.calls_per_round));
}

void PrintMismatch(const Mismatch& mismatch) {
  PrintField("mismatch", absl::StrFormat("%s[%s] is %.9g, should be %.9g (%.3g times the tolerance)%s%s", mismatch.output,
                                         absl::StrJoin(mismatch.index, ", "), mismatch.got, mismatch.want,
                                         mismatch.error_in_tolerances, mismatch.shape.empty() ? "" : " at ", mismatch.shape));
  PrintField("diagnosis", mismatch.diagnosis);
}

void PrintIndented(absl::string_view text) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    absl::PrintF("    %s\n", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void PrintKernel(const KernelProfile& kernel) {
  const double ns = std::max(kernel.time_ns, 1.0);
  PrintField("kernel", absl::StrFormat("%s: %d launched, %s (%.0f %%), occupancy %.0f %%, %.3g GB/s, %.3g GFLOP/s, %.0f %% of the roofline",
                                       kernel.kernel, kernel.launches, HumanTime(kernel.time_ns), 100 * kernel.share,
                                       100 * kernel.occupancy, kernel.bytes / ns, kernel.flop / ns, 100 * kernel.roofline));
}

void Print(const Task& task, const Verdict& verdict) {
  absl::PrintF("%s  %s on %s%s\n", Name(verdict.status), task.id, verdict.device,
               verdict.from_cache ? " (measured earlier)" : "");
  PrintField("reason", verdict.message);
  if (verdict.status == VerdictStatus::kIncorrect) {
    PrintField("correct", absl::StrFormat("%.3g %% of the checked calls", 100 * verdict.correct_rate));
  }
  if (verdict.mismatch) PrintMismatch(*verdict.mismatch);
  for (const RuleHit& rule : verdict.rules) {
    PrintField("rule", absl::StrCat(rule.rule, rule.reject ? "" : " (flagged only)", ": ", rule.evidence));
  }
  for (const Timing& timing : verdict.timings) PrintTiming(timing);
  PrintField("phases", absl::StrFormat("queue %.2f s, build %.2f s, check %.2f s, time %.2f s", verdict.seconds.queue,
                                       verdict.seconds.build, verdict.seconds.check, verdict.seconds.time));
  PrintField("protocol", verdict.protocol);
  PrintField("toolchain", verdict.toolchain);
  PrintField("sandbox", verdict.sandbox == "none" ? "none: the candidate ran with your rights" : verdict.sandbox);
  if (!verdict.compiler_output.empty()) {
    absl::PrintF("  compiler\n");
    PrintIndented(verdict.compiler_output);
  }
  if (!verdict.sanitizer_report.empty()) {
    absl::PrintF("  compute-sanitizer\n");
    PrintIndented(verdict.sanitizer_report);
  }
  for (const KernelProfile& kernel : verdict.profile) PrintKernel(kernel);
}

int ExitCodeOf(const Verdict& verdict) {
  if (verdict.ok()) return kDone;
  return verdict.status == VerdictStatus::kInfra ? kOurFault : kAskedForFailed;
}

absl::StatusOr<int> Verify(const VerifyOptions& options) {
  VerifyRequest request;
  HONE_ASSIGN_OR_RETURN(request.task, LoadTask(options.task));
  HONE_ASSIGN_OR_RETURN(request.candidate, LoadCandidate(options));
  HONE_ASSIGN_OR_RETURN(request.protocol, ProtocolById(options.protocol));
  request.priority = Priority::kHigh;  // somebody waits for it
  request.use_cache = !options.again;
  request.protocol.sanitize = options.sanitize;
  request.protocol.profile = options.profile;
  const absl::StatusOr<Verdict> verdict = Ask(options, request);
  if (!verdict.ok()) return InTaskFile(verdict.status(), options.task, request.task.id);
  if (options.json) {
    absl::PrintF("%s\n", VerdictToJson(*verdict, 2));
  } else {
    Print(request.task, *verdict);
  }
  return ExitCodeOf(*verdict);
}

}  // namespace

void AddVerify(CLI::App& app, Action& action) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* verify = app.add_subcommand("verify", "Compiles, checks and times one candidate");
  verify->footer("Exit code: 0 right, 3 wrong, 2 unusable input, 1 our own failure.\n"
                 "Examples:\n  hone verify softmax_rows my_softmax.cu\n"
                 "  hone verify softmax_rows my_softmax.mu --musa-toolchain compat/cpu");
  verify->add_option("task", options->task, "Id in the built-in suite, or a task file")->required();
  verify->add_option("candidate", options->candidate, "The kernel: .cu, .mu or .py")->required();
  verify->add_option("--device", options->device, "cpu (the CUDA dialect emulated), cuda or musa; default: musa for .mu, else cpu")
      ->check(CLI::IsMember({"cpu", "cuda", "musa"}));
  verify->add_option("--musa-toolchain", options->musa_toolchain,
                     "Of the verifier of its own: mcc, or compat/cuda or compat/cpu without a Moore Threads GPU; default: "
                     "$HONE_MUSA_TOOLCHAIN, else mcc")
      ->check(CLI::IsMember({"mcc", "compat/cuda", "compat/cpu"}));
  verify->add_option("--protocol", options->protocol, "How it is checked and timed")
      ->check(CLI::IsMember(ProtocolIds()));
  AddVerifierChoice(*verify, options->verifier);
  verify->add_flag("--json", options->json, "The whole verdict as JSON");
  verify->add_flag("--again", options->again, "Measure again even if the server knows the verdict");
  verify->add_flag("--sanitize", options->sanitize, "On a GPU: a fault or a wrong answer with compute-sanitizer's report");
  verify->add_flag("--profile", options->profile, "On a GPU: a right candidate with its kernels' counters, by ncu");
  verify->callback([options, &action] {
    action = [options]() -> int {
      const absl::StatusOr<int> code = Verify(*options);
      return code.ok() ? *code : Report(code.status());
    };
  });
}

}  // namespace hone::cli
