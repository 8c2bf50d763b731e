// The rules over Python candidates, on the corpus's torch and triton programs. Nothing of them is run.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "attacks/corpus.h"
#include "base/subprocess.h"
#include "nlohmann/json.hpp"
#include "tests/support/test_programs.h"
#include "verifier/rules/rule.h"

namespace hone::attacks {
namespace {

constexpr char kFolder[] = HONE_SOURCE_DIR "/tests/attacks";
constexpr char kScript[] = HONE_SOURCE_DIR "/verifier/rules/python_rules.py";

std::string RunPython(const std::string& words) {
  if (TestPython().empty()) SKIP("HONE_PYTHON names no Python");
  SpawnOptions spawn;
  spawn.argv = {"/bin/sh", "-c", absl::StrCat(TestPython(), " -I -S ", kScript, " ", words)};
  const auto run = Run(spawn, absl::Seconds(30));
  REQUIRE(run.ok());
  INFO(run->output);
  REQUIRE(run->exit_code == 0);
  return run->output;
}

std::set<std::string> RulesOf(const Program& program) {
  std::set<std::string> rules;
  const auto found = nlohmann::json::parse(RunPython(absl::StrCat("< ", kFolder, "/", program.name)));
  for (const auto& hit : found) {
    INFO(hit.dump());
    CHECK(verifier::FindRule(hit.at("rule").get<std::string>()) != nullptr);
    CHECK_FALSE(hit.at("evidence").get<std::string>().empty());
    rules.insert(hit.at("rule"));
  }
  return rules;
}

TEST_CASE("The script's rules are those of the table", "[attacks][rules]") {
  std::set<std::string> listed, described;
  for (absl::string_view line : absl::StrSplit(RunPython("--list"), '\n', absl::SkipEmpty())) listed.insert(std::string(line));
  for (const verifier::Rule& rule : verifier::AllRules()) {
    const std::string name = rule.name;
    const bool of_builder = name == "unresolved_extension" || name == "compiler_flag";
    if (rule.stage == verifier::RuleStage::kPython && !of_builder) described.insert(name);
  }
  CHECK(listed == described);
}

TEST_CASE("Each Python attack is found by the rule that its header names, and honest modules by none", "[attacks][rules]") {
  const auto programs = LoadCorpus(kFolder, ".py");
  INFO(programs.status().ToString());
  REQUIRE(programs.ok());
  int attacks = 0, honest = 0;
  for (const Program& program : *programs) {
    INFO(program.name);
    const std::set<std::string> rules = RulesOf(program);
    if (program.honest()) {
      ++honest;
      CHECK(rules.empty());
    } else {
      ++attacks;
      // Those that speak when a candidate runs, and one that speaks then too: tests/attacks/corpus_test.cc.
      const verifier::Rule* rule = verifier::FindRule(program.rule);
      const bool of_the_text = rule != nullptr && rule->stage == verifier::RuleStage::kPython && program.rule != "no_custom_kernel";
      CHECK((!of_the_text || rules.count(program.rule) == 1));
    }
  }
  CHECK(attacks >= 30);
  CHECK(honest >= 6);
}

TEST_CASE("Source that Python cannot parse is a hit, not a failure of the script", "[attacks][rules]") {
  CHECK(RunPython("< /dev/null").find("no_custom_kernel") != std::string::npos);
  CHECK(RunPython(absl::StrCat("< ", kFolder, "/d_output/zeros.cu")).find("py_syntax") != std::string::npos);
}

}  // namespace
}  // namespace hone::attacks
