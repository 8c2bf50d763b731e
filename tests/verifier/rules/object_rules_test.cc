// Rules over a built artefact's symbols and sections.

#include "verifier/rules/object_rules.h"

#include <catch2/catch_test_macros.hpp>

namespace hone::verifier {
namespace {

std::string Found(const ElfSummary& object, const RulePolicy& policy = {}) {
  const std::vector<RuleHit> hits = CheckObject(object, policy);
  return hits.empty() ? "" : hits.front().rule + " " + hits.front().evidence;
}

TEST_CASE("An artefact may ask for the CUDA runtime, mathematics and memory, and define its entry point", "[verifier][rules]") {
  CHECK(Found({{"cudaMalloc", "expf", "hone_rt_configure", "hone_workspace", "memcpy", "free"}, {"hone_call"}, {}}).empty());
}

TEST_CASE("Any other symbol, initialiser or export is a hit with its name", "[verifier][rules]") {
  CHECK(Found({{"cudaMalloc", "mprotect"}, {"hone_call"}, {}}) == "foreign_symbol mprotect");
  CHECK(Found({{"hone_cpu_set_mode"}, {"hone_call"}, {}}) == "foreign_symbol hone_cpu_set_mode");
  CHECK(Found({{}, {"hone_call"}, {".init_array"}}) == "initialiser .init_array");
  CHECK(Found({{}, {"hone_call", "memcpy"}, {}}) == "exported_symbol memcpy");
}

TEST_CASE("A task can allow a symbol's rule away", "[verifier][rules]") {
  CHECK(Found({{"mprotect"}, {"hone_call"}, {}}, RulePolicy({false, {"foreign_symbol"}})).empty());
}

}  // namespace
}  // namespace hone::verifier
