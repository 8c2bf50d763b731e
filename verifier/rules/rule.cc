#include "verifier/rules/rule.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "verifier/rules/rule_table.h"

namespace hone::verifier {
namespace {

constexpr size_t kEvidenceBytes = 200;

struct StageText {
  RuleStage stage;
  const char* name;
  const char* heading;
};
constexpr StageText kStages[] = {
    {RuleStage::kSource, "source", "Text of native candidates"},
    {RuleStage::kAssembly, "assembly", "What the compiler made of it"},
    {RuleStage::kObject, "object", "The built artefact"},
    {RuleStage::kPython, "python", "Python candidates (torch, triton)"},
    {RuleStage::kBoundary, "boundary", "The boundary of the candidate's process"},
    {RuleStage::kCheck, "check", "Checked calls"},
    {RuleStage::kTime, "time", "Timed calls"},
};

}  // namespace

const Rule* FindRule(absl::string_view name) {
  for (const Rule& rule : AllRules()) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

absl::string_view Name(RuleStage stage) {
  for (const StageText& text : kStages) {
    if (text.stage == stage) return text.name;
  }
  return "";
}

absl::string_view Name(Severity severity) { return severity == Severity::kReject ? "reject" : "flag"; }

bool RulePolicy::Applies(absl::string_view name) const {
  const Rule* rule = FindRule(name);
  if (rule == nullptr) return false;
  const std::vector<std::string>& off = legality_.disabled_rules;
  return !rule->can_be_disabled || std::find(off.begin(), off.end(), name) == off.end();
}

std::string RulePolicy::Key() const {
  if (legality_ == LegalityPolicy()) return "";
  return absl::StrCat(legality_.allow_library_kernels ? "libraries " : "", absl::StrJoin(legality_.disabled_rules, " "));
}

absl::Status CheckPolicy(const LegalityPolicy& legality) {
  for (const std::string& name : legality.disabled_rules) {
    const Rule* rule = FindRule(name);
    if (rule == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("legality.disabled_rules: no rule \"", name, "\"; docs/rules.md lists them"));
    }
    if (!rule->can_be_disabled) {
      return absl::InvalidArgumentError(
          absl::StrCat("legality.disabled_rules: \"", name, "\" cannot be switched off: without it a verdict means nothing"));
    }
  }
  return absl::OkStatus();
}

void RuleHits::Add(absl::string_view name, absl::string_view evidence) {
  const Rule* rule = FindRule(name);
  HONE_CHECK(rule != nullptr);
  if (!policy_.Applies(name)) return;
  for (const RuleHit& hit : hits_) {
    if (hit.rule == rule->name) return;  // the first of its kind is evidence enough
  }
  evidence = evidence.substr(0, std::min(evidence.find('\n'), kEvidenceBytes));
  hits_.push_back({rule->name, rule->severity == Severity::kReject, std::string(evidence)});
}

const RuleHit* FirstReject(const std::vector<RuleHit>& hits) {
  for (const RuleHit& hit : hits) {
    if (hit.reject) return &hit;
  }
  return nullptr;
}

std::string RulesMarkdown() {
  std::string page =
      "# Rules\n\n"
      "<!-- Written by `hone verifier --rules`; tests/verifier/rules holds this file equal to the code. -->\n\n"
      "A rule that speaks stands in the verdict with its name and its evidence. *reject*: the candidate gets no OK: "
      "`FORBIDDEN` from rules over text and artefact, `CHEAT` from those that watch it run. *flag*: only said. A task "
      "switches a rule off by name in its header (`legality: {disabled_rules: [side_stream]}`); rules marked *fixed* hold for "
      "every task, because without them a verdict means nothing.\n\n"
      "Rules are the second line. What keeps an attack from paying is structure (docs/threat_model.md); a rule gives it a "
      "name, or stops what structure cannot see. Letters and numbers under *seen* are rows of the catalogue of published "
      "hacks that docs/attacks.md describes by class.\n";
  for (const StageText& stage : kStages) {
    absl::StrAppend(&page, "\n## ", stage.heading, "\n\n| Rule | Severity | Finds | Because | Seen |\n|---|---|---|---|---|\n");
    for (const Rule& rule : AllRules()) {
      if (rule.stage != stage.stage) continue;
      absl::StrAppend(&page, "| `", rule.name, "` | ", Name(rule.severity), rule.can_be_disabled ? "" : ", fixed", " | ",
                      rule.what, " | ", rule.why, " | ", rule.source, " |\n");
    }
  }
  return page;
}

}  // namespace hone::verifier
