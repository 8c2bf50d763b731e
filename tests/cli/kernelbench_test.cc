#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "cli/kernelbench/candidates.h"
#include "cli/kernelbench/report.h"
#include "cli/kernelbench/results.h"

namespace hone::cli {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::WithinRel;

constexpr char kReference[] =
    R"("import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\ndef get_inputs():\n    return [torch.rand(2)]\ndef get_init_inputs():\n    return []\n")";

std::string Line(int problem, const std::string& candidate, const std::string& rest = "") {
  return absl::StrCat(R"({"level": 1, "problem_id": )", problem, R"(, "reference": )", kReference, R"(, "candidate": )",
                      candidate, rest, "}\n");
}

EvalResult Result(const std::string& id, VerdictStatus status, double speedup = 0) {
  EvalResult result;
  result.id = id;
  result.key = "key";
  result.level = 1;
  result.given = true;
  result.verdict.status = status;
  if (speedup > 0) {
    Timing timing;
    timing.speedup = {speedup, speedup * 0.99, speedup * 1.01, 10};
    result.verdict.timings.push_back(timing);
  }
  return result;
}

std::vector<EvalCandidate> Load(const TempFolder& folder, const std::string& text, const CandidateFilter& filter = {}) {
  REQUIRE(WriteFileAtomically(folder.path() + "/c.jsonl", text).ok());
  const auto candidates = LoadCandidates(folder.path() + "/c.jsonl", {}, filter);
  INFO(candidates.status());
  REQUIRE(candidates.ok());
  return *candidates;
}

TEST_CASE("A published collection loads, and null or \"None\" is a task without a candidate", "[cli][kernelbench]") {
  const TempFolder folder = TempFolder::Create("kernelbench").value();
  const auto candidates = Load(folder, Line(1, "\"class ModelNew: pass\"", R"(, "published_speedup": 2.5)") +
                                           Line(2, "null") + Line(3, "\"None\""));
  REQUIRE(candidates.size() == 3);
  CHECK(candidates[0].source == "class ModelNew: pass");
  CHECK(candidates[0].claimed_speedup == 2.5);
  CHECK(candidates[0].problem_id == 1);
  CHECK(candidates[1].source.empty());
  CHECK(candidates[2].source.empty());
}

TEST_CASE("Two samples of one task stay two candidates", "[cli][kernelbench]") {
  const TempFolder folder = TempFolder::Create("kernelbench").value();
  const auto candidates = Load(folder, Line(1, "\"a\"") + Line(1, "\"b\""));
  REQUIRE(candidates.size() == 2);
  CHECK(candidates[0].id != candidates[1].id);
}

TEST_CASE("A line that names no task is an error with file and line", "[cli][kernelbench]") {
  const TempFolder folder = TempFolder::Create("kernelbench").value();
  REQUIRE(WriteFileAtomically(folder.path() + "/c.jsonl", Line(1, "\"a\"") + "{\"candidate\": \"b\"}\n").ok());
  const auto candidates = LoadCandidates(folder.path() + "/c.jsonl", {}, {});
  REQUIRE_FALSE(candidates.ok());
  CHECK_THAT(std::string(candidates.status().message()), ContainsSubstring("c.jsonl:2: needs `task`"));
}

TEST_CASE("A field of another type is an error with file, line and field, never a missing answer", "[cli][kernelbench]") {
  const TempFolder folder = TempFolder::Create("kernelbench").value();
  const auto error = [&](const std::string& line) {
    REQUIRE(WriteFileAtomically(folder.path() + "/c.jsonl", Line(1, "\"a\"") + line + "\n").ok());
    return std::string(LoadCandidates(folder.path() + "/c.jsonl", {}, {}).status().message());
  };
  CHECK_THAT(error(R"({"level": "one", "problem_id": 1})"), EndsWith(R"(c.jsonl:2: "level" must be a whole number, but is "one")"));
  CHECK_THAT(error(R"({"level": 4294967297, "problem_id": 1})"), ContainsSubstring(R"("level" must be a whole number)"));
  CHECK_THAT(error(R"({"task": ["x"]})"), EndsWith(R"(c.jsonl:2: "task" must be a text, but is of type array)"));
  CHECK_THAT(error(Line(2, "7")), ContainsSubstring(R"(c.jsonl:2: "candidate" must be a text, but is 7)"));
  CHECK_THAT(error("{\"task\": \"x"), EndsWith("c.jsonl:2: not JSON, or cut"));
  CHECK_THAT(error("[]"), EndsWith("c.jsonl:2: not a JSON object but of type array"));
}

TEST_CASE("A folder of verdicts with a broken line is an error with the line and the field", "[cli][kernelbench]") {
  const TempFolder folder = TempFolder::Create("kernelbench").value();
  const std::string path = folder.path() + "/verdicts.jsonl";
  REQUIRE(WriteFileAtomically(path, "{\"id\": 3}\n\n").ok());
  CHECK(ReadEvalResults(path).status().message() == path + ":1: \"id\" must be a text, but is 3");
}

TEST_CASE("fast_p is the share of all candidates that are correct and more than p times as fast",
          "[cli][kernelbench]") {
  EvalResult missing = Result("e", VerdictStatus::kInfra);
  missing.given = false;
  const EvalSummary summary =
      Summarise({Result("a", VerdictStatus::kOk, 0.5), Result("b", VerdictStatus::kOk, 2.0),
                 Result("c", VerdictStatus::kOk, 4.0), Result("d", VerdictStatus::kCompile), missing});
  CHECK(summary.n == 4);
  CHECK(summary.missing == 1);
  CHECK(summary.correct == 3);
  CHECK(summary.compiled == 3);
  CHECK(summary.fast_0 == 0.75);
  CHECK(summary.fast_1 == 0.5);
  CHECK(summary.fast_2 == 0.25);                                     // exactly 2 is not more than 2
  CHECK_THAT(summary.geometric_mean, WithinRel(1.5874, 1e-4));       // (0.5 * 2 * 4)^(1/3)
  CHECK_THAT(summary.geometric_mean_fast, WithinRel(2.8284, 1e-4));  // (2 * 4)^(1/2)
}

TEST_CASE("Verdicts read back, the last one of an id counts, and a line cut by a kill is left out",
          "[cli][kernelbench]") {
  const TempFolder folder = TempFolder::Create("kernelbench").value();
  const std::string path = folder.path() + "/verdicts.jsonl";
  const std::string lines = EvalResultToJson(Result("a", VerdictStatus::kInfra)) + "\n" +
                            EvalResultToJson(Result("b", VerdictStatus::kOk, 3)) + "\n" +
                            EvalResultToJson(Result("a", VerdictStatus::kOk, 1.5)) + "\n";
  REQUIRE(WriteFileAtomically(path, lines + "{\"id\": \"c\", \"ke").ok());
  const auto results = ReadEvalResults(path);
  INFO(results.status());
  REQUIRE(results.ok());
  REQUIRE(results->size() == 2);
  CHECK(results->at(0).id == "a");
  CHECK(results->at(0).speedup() == 1.5);
  CHECK(results->at(1).speedup() == 3);
  REQUIRE(WriteFileAtomically(path, "{\"id\": \"c\", \"ke\n" + lines).ok());
  CHECK_FALSE(ReadEvalResults(path).ok());  // damage elsewhere is no cut
}

TEST_CASE("The reason why a claim and a measurement differ comes from the verdict", "[cli][kernelbench]") {
  EvalResult plain = Result("a", VerdictStatus::kForbidden);
  plain.verdict.rules = {{"no_custom_kernel", true, "PyTorch did: aten::mm"}};
  CHECK(ReasonOf(plain) == "plain PyTorch");
  EvalResult patches = Result("p", VerdictStatus::kForbidden);
  patches.verdict.rules = {{"py_framework_compute", false, "x"}, {"py_monkey_patch", true, "y"}};
  CHECK(ReasonOf(patches) == "forbidden: py_monkey_patch");  // what speaks without rejecting is no reason
  CHECK(ReasonOf(Result("b", VerdictStatus::kCompile)) == "does not build");
  CHECK(ReasonOf(Result("c", VerdictStatus::kIncorrect)) == "wrong result");
  EvalResult timed = Result("d", VerdictStatus::kOk, 2.0);
  CHECK(ReasonOf(timed) == "no claim");
  timed.claimed_speedup = 2.1;
  CHECK(ReasonOf(timed) == "agrees");
  timed.claimed_speedup = 5;
  CHECK(ReasonOf(timed) == "slower than claimed");
  timed.claimed_speedup = 1;
  CHECK(ReasonOf(timed) == "faster than claimed");
}

TEST_CASE("Reports name every candidate, and a message with commas stays one cell of the CSV", "[cli][kernelbench]") {
  EvalResult result = Result("kernelbench_1_7", VerdictStatus::kCompile);
  result.verdict.message = "expected ';', got \"x\"";
  const std::string csv = FormatCsv({result});
  CHECK_THAT(csv, ContainsSubstring("kernelbench_1_7,1,0,COMPILE"));
  CHECK_THAT(csv, ContainsSubstring("\"expected ';', got \"\"x\"\"\""));
  CHECK_THAT(FormatHtml("t", "s", {result}), ContainsSubstring("kernelbench_1_7"));
  CHECK_THAT(FormatTables({result}), ContainsSubstring("level 1"));
  EvalResult missing;
  missing.id = "kernelbench_1_8";
  const std::string claims = FormatClaims({{"hone-v1", {result, missing}}}, {{"inside `try`", 1}}, {});
  CHECK_THAT(claims, ContainsSubstring("| does not build | 1 |"));
  CHECK_THAT(claims, ContainsSubstring("| no candidate published | 1 |"));
  CHECK_THAT(claims, ContainsSubstring("| kernelbench_1_8 |"));
  CHECK_THAT(claims, !ContainsSubstring("Where PyTorch may compute"));
  const EvalResult timed = Result("kernelbench_1_9", VerdictStatus::kOk, 1.5);
  const std::string both = FormatClaims({{"hone-v1", {result, missing}}}, {}, {{"hone-v1", {missing, timed}}});
  const std::string library = both.substr(both.find("Where PyTorch may compute"));
  CHECK_THAT(library, ContainsSubstring("| kernelbench_1_9 |"));
  CHECK_THAT(library, !ContainsSubstring("kernelbench_1_8"));  // nobody judged it there
}

}  // namespace
}  // namespace hone::cli
