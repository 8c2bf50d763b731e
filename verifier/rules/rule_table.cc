#include "verifier/rules/rule_table.h"

namespace hone::verifier {

absl::Span<const Rule> AllRules() { return kRules; }

}  // namespace hone::verifier
