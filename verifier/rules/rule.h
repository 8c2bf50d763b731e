#pragma once

// The rules of the verifier: what a candidate may not do, each with a name that stands in verdicts, in docs/rules.md and in
// task headers. A rule says that something is wrong; the structure (process boundary, sandbox, checked timing, poison,
// secret seeds) is what keeps it from paying, rule or no rule.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/task.h"
#include "base/verdict.h"

namespace hone::verifier {

enum class Severity {
  kReject,  // the candidate gets no OK
  kFlag,    // said in the verdict and in the metrics, changes nothing
};

/// Where a rule looks.
enum class RuleStage {
  kSource,    // the text of a native candidate, its tokens
  kAssembly,  // what the compiler made of it
  kObject,    // symbols and sections of the built artefact
  kPython,    // the syntax tree of a Python candidate
  kBoundary,  // what the candidate's process did at the boundary of the sandbox
  kCheck,     // checked calls
  kTime,      // timed calls
};

struct Rule {
  const char* name;
  RuleStage stage;
  Severity severity;
  bool can_be_disabled;  // by a task's legality policy; rules of the boundary cannot: without them a verdict means nothing
  const char* what;      // what it finds, one sentence
  const char* why;       // what it would buy a candidate
  const char* source;    // where it was seen: rows of the catalogue of published hacks, or "ours"
};

/// All rules, by stage.
absl::Span<const Rule> AllRules();
/// Null: no such rule.
const Rule* FindRule(absl::string_view name);
absl::string_view Name(RuleStage stage);
absl::string_view Name(Severity severity);

/// Which rules a task switched off.
class RulePolicy {
 public:
  RulePolicy() = default;
  explicit RulePolicy(const LegalityPolicy& legality) : legality_(legality) {}

  /// Whether the rule applies. Unknown names do not.
  bool Applies(absl::string_view rule) const;
  bool allow_library_kernels() const { return legality_.allow_library_kernels; }
  /// What a build's result depends on besides its source.
  std::string Key() const;

 private:
  LegalityPolicy legality_;
};

/// kInvalidArgument: the policy names a rule that does not exist or cannot be disabled.
absl::Status CheckPolicy(const LegalityPolicy& legality);

/// Gathers what rules found: severity from the table, each rule once, rules that do not apply dropped.
class RuleHits {
 public:
  explicit RuleHits(const RulePolicy& policy) : policy_(policy) {}
  /// `rule` exists. `evidence` is cut to one line of 200 bytes.
  void Add(absl::string_view rule, absl::string_view evidence);
  std::vector<RuleHit> Take() { return std::move(hits_); }

 private:
  const RulePolicy& policy_;
  std::vector<RuleHit> hits_;
};

/// The first that rejects, or null.
const RuleHit* FirstReject(const std::vector<RuleHit>& hits);

/// docs/rules.md, all of it.
std::string RulesMarkdown();

}  // namespace hone::verifier
