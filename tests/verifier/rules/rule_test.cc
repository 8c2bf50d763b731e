// The table of rules: names, severities, off switches, and the page that is written from it.

#include "verifier/rules/rule.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>

#include "base/file.h"

namespace hone::verifier {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("Each rule has a name of its own and says what it finds, why and where it was seen", "[verifier][rules]") {
  std::set<std::string> names;
  for (const Rule& rule : AllRules()) {
    INFO(rule.name);
    CHECK(names.insert(rule.name).second);
    CHECK(FindRule(rule.name) == &rule);
    CHECK_FALSE(std::string(rule.what).empty());
    CHECK_FALSE(std::string(rule.why).empty());
    CHECK_FALSE(std::string(rule.source).empty());
  }
  CHECK(FindRule("no_such_rule") == nullptr);
}

TEST_CASE("A task switches off rules by name, but none of the boundary", "[verifier][rules]") {
  LegalityPolicy legality;
  legality.disabled_rules = {"side_stream", "forged_answer"};
  const RulePolicy policy(legality);
  CHECK_FALSE(policy.Applies("side_stream"));
  CHECK(policy.Applies("inline_assembly"));
  CHECK(policy.Applies("forged_answer"));
  CHECK_FALSE(policy.Applies("no_such_rule"));
  CHECK(policy.Key() != RulePolicy().Key());
}

TEST_CASE("A policy that names an unknown or a fixed rule is refused with the name", "[verifier][rules]") {
  CHECK(CheckPolicy({}).ok());
  CHECK(CheckPolicy({false, {"side_stream"}}).ok());
  CHECK_THAT(std::string(CheckPolicy({false, {"side_steam"}}).message()), ContainsSubstring("no rule \"side_steam\""));
  CHECK_THAT(std::string(CheckPolicy({false, {"forged_answer"}}).message()), ContainsSubstring("cannot be switched off"));
}

TEST_CASE("Hits carry the table's severity, one line of evidence, and each rule once", "[verifier][rules]") {
  LegalityPolicy legality;
  legality.disabled_rules = {"graph_launch"};
  const RulePolicy policy(legality);
  RuleHits flags(policy);
  flags.Add("side_stream", "first");
  CHECK(FirstReject(flags.Take()) == nullptr);
  RuleHits hits(policy);
  hits.Add("side_stream", "first\nsecond line");
  hits.Add("side_stream", "again");
  hits.Add("graph_launch", "switched off");
  hits.Add("foreign_symbol", std::string(1000, 'x'));
  const std::vector<RuleHit> found = hits.Take();
  REQUIRE(found.size() == 2);
  CHECK(found[0] == RuleHit{"side_stream", false, "first"});
  CHECK(found[1].reject);
  CHECK(found[1].evidence.size() == 200);
  CHECK(FirstReject(found) == &found[1]);
}

TEST_CASE("docs/rules.md is what `hone verifier --rules` writes", "[verifier][rules]") {
  const auto page = ReadFile(HONE_SOURCE_DIR "/docs/rules.md");
  REQUIRE(page.ok());
  CHECK(*page == RulesMarkdown());
}

}  // namespace
}  // namespace hone::verifier
