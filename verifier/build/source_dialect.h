#pragma once

// Whose names a native candidate is written in: CUDA's for the CPU backend and NVIDIA's GPUs, MUSA's (verifier/musify)
// for Moore Threads'. The builders are otherwise the same.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/candidate.h"
#include "base/signature.h"
#include "base/verdict.h"
#include "verifier/rules/source_rules.h"

namespace hone::verifier {

class SourceDialect {
 public:
  explicit SourceDialect(Backend backend) : musa_(backend == Backend::kMusa) {}

  bool is_musa() const { return musa_; }
  std::string extension() const { return musa_ ? ".mu" : ".cu"; }
  std::string candidate_file() const { return "candidate" + extension(); }

  /// CUDA C++ of ours in this dialect.
  std::string Of(absl::string_view cuda) const;
  /// `launch` as candidates declare it.
  std::string Declaration(const Signature& signature) const { return Of(signature.Declaration()); }

  /// What is compiled for a candidate: `before`, the glue, its text under its own name.
  std::string Unit(const Signature& signature, absl::string_view text, absl::string_view before) const;

  /// The rules over a candidate's text. They know CUDA's names: MUSA's text is read a second time under them, so that a
  /// rule holds whatever the prefix.
  std::vector<RuleHit> CheckRules(absl::string_view text, Assembly assembly, const RulePolicy& policy) const;

 private:
  bool musa_;
};

}  // namespace hone::verifier
