#pragma once

// What a policy is told, as texts of one user message each; the chat template around them is the tokenizer's business.
//
//   TaskPrompt          the task: reference, entry point to fill, rules
//   ContrastivePrompt   the same with two earlier implementations and their speedups (CUDA-L1)
//   RepairPrompt        the same with a failing implementation and what was wrong with it (buffered dynamic retry)
//   FeedbackTurn        what the verifier found, as the next turn of an episode
//
// Sentences are ours; the order of the contrastive layout's blocks is CUDA-L1's (arXiv:2507.14111, contrastive prompt).

#include <cstdint>
#include <string>
#include <utility>

#include "base/candidate.h"
#include "base/task.h"
#include "base/verdict.h"

namespace hone::rollout {

struct PromptOptions {
  Format format = Format::kNative;
  Backend backend = Backend::kCuda;
  std::string device;                 // named where it is known: "NVIDIA H200"
  int64_t max_evidence_bytes = 2000;  // of compiler output
  bool show_shapes = false;  // name the sizes of a failing variant; variants are hidden from the policy by default
};

/// `skeleton`: for native candidates the typed entry point with an empty body, empty for module formats.
std::string TaskPrompt(const Task& task, const std::string& skeleton, const PromptOptions& options);

/// An earlier implementation and its measured speedup over the reference.
struct PriorCode {
  std::string source;
  double speedup = 0;
};
std::string ContrastivePrompt(const Task& task, const std::string& skeleton,
                              const std::pair<PriorCode, PriorCode>& prior, const PromptOptions& options);

/// `verdict` is of the failing `source`.
std::string RepairPrompt(const Task& task, const std::string& skeleton, const std::string& source,
                         const Verdict& verdict, const PromptOptions& options);

std::string FeedbackTurn(const Verdict& verdict, const PromptOptions& options);

/// The evidence alone: compiler message, first mismatch, broken rule, timing. One paragraph and at most one block. Our
/// own failures say only that there is no result.
std::string Evidence(const Verdict& verdict, const PromptOptions& options);

}  // namespace hone::rollout
