#include "rollout/prompt/layouts.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "rollout/prompt/markdown.h"

namespace hone::rollout {
namespace {

std::string Language(const PromptOptions& options) {
  if (options.format != Format::kNative) return "python";
  return options.backend == Backend::kMusa ? "cpp" : "cuda";
}

std::string Dialect(const PromptOptions& options) {
  return options.backend == Backend::kMusa ? "MUSA C++" : "CUDA C++";
}

std::string Role(const PromptOptions& options) {
  const std::string what = options.format == Format::kTriton ? "Triton" : Dialect(options);
  const std::string device = options.device.empty() ? "" : absl::StrCat(" for ", options.device);
  return absl::StrCat(
      "You write fast ", what, " kernels", device,
      ". Replace the computation of this PyTorch module by kernels of your own that give the same result "
      "in less time.\n");
}

std::string Reference(const Task& task) {
  const std::string description = task.description.empty() ? "" : absl::StrCat("Task: ", task.description, "\n\n");
  return absl::StrCat(description, "Reference:\n", CodeBlock("python", task.reference));
}

std::string EntryPoint(const std::string& skeleton, const PromptOptions& options) {
  if (options.format != Format::kNative) {
    return "Answer with a Python module that defines `ModelNew` with the constructor and the forward signature of "
           "`Model`.\n";
  }
  return absl::StrCat("Fill in this entry point. Tensors are dense and row-major: index them as flat arrays.\n",
                      CodeBlock(Language(options), skeleton));
}

std::string Rules(const Task& task) {
  const std::string compute = task.legality.allow_library_kernels
                                  ? "Library kernels are allowed."
                                  : "Library kernels are not allowed: your own kernels do all of the computation.";
  return absl::StrCat(
      "Rules: results must match the reference on inputs of several sizes, or the answer is worth nothing. ", compute,
      " Every call computes everything anew: no result of an earlier call is kept or reused. Sizes and "
      "constants of the reference stay as they are.\nAnswer with one complete code block.\n");
}

std::string SpeedupText(double speedup) { return absl::StrFormat("%.2fx the speed of the reference", speedup); }

std::string Position(const Mismatch& mismatch) {
  return mismatch.index.empty() ? "" : absl::StrCat("[", absl::StrJoin(mismatch.index, ", "), "]");
}

std::string MismatchText(const Mismatch& mismatch, const PromptOptions& options) {
  std::string text = absl::StrFormat(" First difference: %s%s is %.9g and should be %.9g", mismatch.output,
                                     Position(mismatch), mismatch.got, mismatch.want);
  if (std::isfinite(mismatch.error_in_tolerances) && mismatch.error_in_tolerances > 0) {
    absl::StrAppendFormat(&text, " (%.3g times the tolerance)", mismatch.error_in_tolerances);
  }
  if (options.show_shapes && !mismatch.shape.empty()) absl::StrAppend(&text, ", at ", mismatch.shape);
  absl::StrAppend(&text, ".");
  if (!mismatch.diagnosis.empty()) absl::StrAppend(&text, " ", mismatch.diagnosis);
  return text;
}

std::string WithMessage(absl::string_view what, const Verdict& verdict) {
  return verdict.message.empty() ? absl::StrCat(what, ".") : absl::StrCat(what, ": ", verdict.message);
}

std::string BrokenRule(const Verdict& verdict) {
  for (const RuleHit& hit : verdict.rules) {
    if (hit.reject)
      return absl::StrCat("It breaks the rule '", hit.rule, "'",
                          hit.evidence.empty() ? "." : absl::StrCat(": ", hit.evidence));
  }
  return WithMessage("It breaks the rules", verdict);
}

std::string CompilerBlock(const Verdict& verdict, const PromptOptions& options) {
  if (verdict.compiler_output.empty()) return "";
  return absl::StrCat("\n", CodeBlock("", Shortened(verdict.compiler_output, options.max_evidence_bytes)));
}

std::string TimingText(const Verdict& verdict) {
  const Timing* timing = verdict.speed();
  if (timing == nullptr) return "It is correct. It was not timed.";
  return absl::StrFormat(
      "It is correct and runs at %.2f times the speed of the %s baseline (95 %% interval %.2f to %.2f)%s.",
      timing->speedup.median, std::string(Name(timing->baseline)), timing->speedup.low, timing->speedup.high,
      timing->emulated ? ", on an emulated device" : "");
}

}  // namespace

std::string Evidence(const Verdict& verdict, const PromptOptions& options) {
  switch (verdict.status) {
    case VerdictStatus::kOk:
      return TimingText(verdict);
    case VerdictStatus::kParse:
      return WithMessage("No usable code was found in the answer", verdict);
    case VerdictStatus::kForbidden:
    case VerdictStatus::kCheat:
      return BrokenRule(verdict);
    case VerdictStatus::kCompile:
      return absl::StrCat(WithMessage("It does not compile", verdict), CompilerBlock(verdict, options));
    case VerdictStatus::kCompileTimeout:
      return "Compiling it took too long.";
    case VerdictStatus::kRuntime:
      return WithMessage("It compiles but fails while running", verdict);
    case VerdictStatus::kTimeout:
      return "It compiles but did not finish in time.";
    case VerdictStatus::kOom:
      return "It compiles but ran out of device memory.";
    case VerdictStatus::kIncorrect:
      return absl::StrCat(absl::StrFormat("It runs, but its results are wrong: %.0f %% of the checks were right.",
                                          100 * verdict.correct_rate),
                          verdict.mismatch ? MismatchText(*verdict.mismatch, options) : "");
    case VerdictStatus::kInfra:
      return "There is no result for it.";
  }
  return "";
}

std::string TaskPrompt(const Task& task, const std::string& skeleton, const PromptOptions& options) {
  return absl::StrCat(Role(options), "\n", Reference(task), "\n", EntryPoint(skeleton, options), "\n", Rules(task));
}

std::string ContrastivePrompt(const Task& task, const std::string& skeleton,
                              const std::pair<PriorCode, PriorCode>& prior, const PromptOptions& options) {
  const auto shown = [&](const char* which, const PriorCode& code) {
    return absl::StrCat(which, ", ", SpeedupText(code.speedup), ":\n", CodeBlock(Language(options), code.source));
  };
  return absl::StrCat(
      Role(options),
      "Two earlier implementations with their measured speedups are shown: find out what makes the one faster "
      "than the other and go further.\n\n",
      Reference(task), "\n", shown("First implementation", prior.first), "\n",
      shown("Second implementation", prior.second), "\n",
      "Answer in three sections with these headings.\n"
      "## Performance Analysis\nWhich implementation is faster, and why? Which of its techniques promise most? What "
      "limits "
      "it now? Which techniques has neither used? Where is the most left to gain?\n"
      "## Algorithm Design\nWhat you will do, in a few sentences.\n"
      "## Code Implementation\nThe complete source in one code block.\n\n",
      EntryPoint(skeleton, options), "\n", Rules(task));
}

std::string RepairPrompt(const Task& task, const std::string& skeleton, const std::string& source,
                         const Verdict& verdict, const PromptOptions& options) {
  return absl::StrCat(Role(options), "An earlier attempt failed; repair it, or write a better one.\n\n",
                      Reference(task), "\nThe attempt:\n", CodeBlock(Language(options), source),
                      "\nWhat the verifier found: ", Evidence(verdict, options), "\n\n", EntryPoint(skeleton, options),
                      "\n", Rules(task));
}

std::string FeedbackTurn(const Verdict& verdict, const PromptOptions& options) {
  const char* request = verdict.ok() ? "Make it faster. Answer with the complete source in one code block.\n"
                                     : "Correct it. Answer with the complete source in one code block.\n";
  return absl::StrCat("Your kernel was compiled, checked and timed. ", Evidence(verdict, options), "\n\n", request);
}

}  // namespace hone::rollout
