#include "rewards/lab/records.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "rewards/lab/journal_lines.h"
#include "tests/rewards/lab/files.h"
#include "tests/support/shared_data.h"

namespace hone::rewards {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

struct Read {
  absl::Status status;
  ReadSummary summary;
  std::vector<LabGroup> groups;
};

Read ReadAll(const std::string& path, const ReadOptions& options = {}) {
  Read read;
  absl::StatusOr<ReadSummary> summary = ReadGroups({path}, options, [&](LabGroup&& group) {
    read.groups.push_back(std::move(group));
    return absl::OkStatus();
  });
  read.status = summary.status();
  if (summary.ok()) read.summary = *std::move(summary);
  return read;
}

struct Folder {
  TempFolder folder = *TempFolder::Create("lab");
  std::string operator/(const std::string& name) const { return folder.path() + "/" + name; }
};

void CheckEqual(const GroupOutcomes& a, const GroupOutcomes& b) {
  REQUIRE(a.size() == b.size());
  for (size_t e = 0; e < a.size(); ++e) {
    REQUIRE(a[e].size() == b[e].size());
    for (size_t k = 0; k < a[e].size(); ++k) {
      CHECK(a[e][k].status == b[e][k].status);
      CHECK(a[e][k].correct_rate == b[e][k].correct_rate);
      CHECK(a[e][k].speedups == b[e][k].speedups);
      CHECK(a[e][k].coverage == b[e][k].coverage);
      CHECK(a[e][k].first_baseline == b[e][k].first_baseline);
      CHECK(std::vector<double>(a[e][k].samples.begin(), a[e][k].samples.end()) ==
            std::vector<double>(b[e][k].samples.begin(), b[e][k].samples.end()));
      CHECK(a[e][k].response_tokens == b[e][k].response_tokens);
      CHECK(a[e][k].truncated == b[e][k].truncated);
      CHECK(a[e][k].uniform == b[e][k].uniform);
    }
  }
}

TEST_CASE("The fast reader gives the outcomes that the full reader gives", "[lab]") {
  const Folder folder;
  const std::vector<Group> groups = RandomGroups(200, 21);
  WriteJournal(folder / "journal.jsonl.zst", groups);
  const Read read = ReadAll(folder / "journal.jsonl.zst");
  REQUIRE(read.status.ok());
  REQUIRE(read.groups.size() == groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    CHECK(read.groups[g].id == groups[g].id);
    CHECK(read.groups[g].task_id == groups[g].task_id);
    CheckEqual(read.groups[g].outcomes, OutcomesOf(groups[g]));
  }
  CHECK(read.summary.device == "cpu");
  CHECK(read.summary.emulated);
}

TEST_CASE("Fields may come in any order, unknown ones are skipped, absent ones have their defaults", "[lab]") {
  const std::string line =
      R"({"new": {"a": [1, {"b": 2}]}, "episodes": [{"turns": [{"verdict": {"timings": [], "status": "COMPILE"}}, {}],)"
      R"( "task_id": "t", "id": "late"}], "id": "g"})";
  const std::string padded = line + std::string(kLinePadding, '\0');
  LabGroup group;
  REQUIRE(JournalLineParser().Parse(absl::string_view(padded).substr(0, line.size()), group).ok());
  CHECK(group.id == "g");
  REQUIRE(group.outcomes.size() == 1);
  REQUIRE(group.outcomes[0].size() == 2);
  CHECK(group.outcomes[0][0].status == VerdictStatus::kCompile);
  CHECK(group.outcomes[0][1].status == VerdictStatus::kInfra);
  CHECK(group.outcomes[0][1].uniform == UniformOf("late", 1));  // the id that came after the turns
}

TEST_CASE("A line that is broken anywhere is an error and never a crash", "[lab]") {
  const std::string line = GroupToJson(RandomGroups(1, 4)[0]);
  JournalLineParser parser;
  std::mt19937_64 random(8);
  for (int i = 0; i < 3000; ++i) {
    std::string broken = line;
    if (i % 2 == 0) broken.resize(random() % line.size());
    for (size_t flips = i % 2 == 0 ? 0 : 1 + random() % 3; flips > 0; --flips) {
      broken[random() % broken.size()] = static_cast<char>(random());
    }
    const size_t size = broken.size();
    broken.append(kLinePadding, '\0');
    LabGroup group;
    const absl::Status status = parser.Parse(absl::string_view(broken).substr(0, size), group);
    if (i % 2 == 0) CHECK_FALSE(status.ok());
  }
}

TEST_CASE("A field of the wrong type is named, with file and record", "[lab]") {
  const Folder folder;
  WriteText(folder / "bad.jsonl",
            "{\"id\":\"a\",\"episodes\":[]}\n{\"id\":\"b\",\"episodes\":[{\"turns\":[{\"verdict\":{\"status\":\"FINE\"}"
            "}]}]}\n");
  const Read read = ReadAll(folder / "bad.jsonl");
  CHECK(read.status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(read.status.message()),
             ContainsSubstring("bad.jsonl: record 2") && ContainsSubstring("episodes[0].turns[0].verdict.status"));
}

TEST_CASE("A journal cut in mid-record loads up to the cut with a warning", "[lab]") {
  const Folder folder;
  WriteJournal(folder / "whole.jsonl.zst", RandomGroups(20, 5));
  const std::string bytes = *ReadFile(folder / "whole.jsonl.zst");
  const size_t whole = ReadAll(folder / "whole.jsonl.zst").groups.size();
  REQUIRE(whole == 20);
  WriteText(folder / "cut.jsonl.zst", bytes.substr(0, bytes.size() - 7));
  const Read read = ReadAll(folder / "cut.jsonl.zst");
  REQUIRE(read.status.ok());
  CHECK(read.groups.size() == whole - 1);
  REQUIRE(read.summary.warnings.size() == 1);
  CHECK_THAT(read.summary.warnings[0],
             ContainsSubstring("cut.jsonl.zst") && ContainsSubstring("cut inside the record"));
}

TEST_CASE("Empty journals, newer schemas, foreign and missing files are refused with a reason", "[lab]") {
  const Folder folder;
  WriteJournal(folder / "empty.jsonl.zst", {});
  CHECK_THAT(std::string(ReadAll(folder / "empty.jsonl.zst").status.message()), ContainsSubstring("no episodes"));
  WriteText(folder / "newer.jsonl", "{\"hone_journal\":99}\n{\"id\":\"a\",\"episodes\":[]}\n");
  CHECK_THAT(std::string(ReadAll(folder / "newer.jsonl").status.message()), ContainsSubstring("schema 99"));
  WriteText(folder / "other.jsonl", "{\"hello\": 1}\n");
  CHECK_THAT(std::string(ReadAll(folder / "other.jsonl").status.message()), ContainsSubstring("neither a journal"));
  WriteText(folder / "text.txt", "hello\n");
  CHECK(ReadAll(folder / "text.txt").status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(ReadAll(folder / "nowhere.jsonl").status.code() == absl::StatusCode::kNotFound);
}

TEST_CASE("Passes of two devices in one comparison are an error that names both; one can be chosen", "[lab]") {
  const Folder folder;
  Group gpu = RecordedGroup("gpu", {{RecordedTurn(VerdictStatus::kOk, 2)}});
  gpu.episodes[0].turns[0].verdict.device = "NVIDIA H200";
  const Group cpu = RecordedGroup("cpu", {{RecordedTurn(VerdictStatus::kOk, 3)}});
  WriteJournal(folder / "mixed.jsonl.zst", {cpu, gpu});
  const Read mixed = ReadAll(folder / "mixed.jsonl.zst");
  CHECK(mixed.status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(mixed.status.message()), ContainsSubstring("'cpu'") && ContainsSubstring("'NVIDIA H200'"));
  ReadOptions only_gpu;
  only_gpu.device = "NVIDIA H200";
  const Read chosen = ReadAll(folder / "mixed.jsonl.zst", only_gpu);
  REQUIRE(chosen.status.ok());
  CHECK(chosen.groups.size() == 1);
  CHECK(chosen.summary.other_devices == 1);
  ReadOptions nobody;
  nobody.device = "NVIDIA H100";
  CHECK_THAT(std::string(ReadAll(folder / "mixed.jsonl.zst", nobody).status.message()),
             ContainsSubstring("2 groups of others"));
}

TEST_CASE("Figures of two protocols never mix", "[lab]") {
  const Folder folder;
  Group other = RecordedGroup("b", {{RecordedTurn(VerdictStatus::kOk, 2)}});
  other.episodes[0].turns[0].verdict.protocol = "kernelbench-v0.1";
  WriteJournal(folder / "mixed.jsonl.zst", {RecordedGroup("a", {{RecordedTurn(VerdictStatus::kOk, 2)}}), other});
  CHECK_THAT(std::string(ReadAll(folder / "mixed.jsonl.zst").status.message()),
             ContainsSubstring("two protocols") && ContainsSubstring("kernelbench-v0.1"));
}

TEST_CASE("KernelBench results become groups by problem", "[lab]") {
  const Folder folder;
  WriteText(folder / "eval_results.json", R"json({
    "1": [
      {"sample_id": 0, "compiled": true, "correctness": true, "runtime": 2.0, "metadata": {"hardware": "NVIDIA L40S"}},
      {"sample_id": 1, "compiled": true, "correctness": false, "runtime": -1.0, "metadata": {"correctness_trials": "(2 / 5)"}},
      {"sample_id": 2, "compiled": true, "correctness": false, "runtime": -1.0, "metadata": {"runtime_error": "boom"}},
      {"sample_id": 3, "compiled": false, "correctness": false, "runtime": -1.0, "metadata": {}}
    ],
    "7": {"sample_id": 0, "compiled": true, "correctness": true, "runtime": 2.0, "ref_runtime": 3.0, "metadata": {}}
  })json");
  WriteText(folder / "baseline.json",
            R"({"level1": {"1_Square.py": {"mean": 5.0}}, "level2": {"1_Other.py": {"mean": 9.0}}})");
  ReadOptions options;
  options.baseline_times = folder / "baseline.json";
  options.level = 1;
  const Read read = ReadAll(folder / "eval_results.json", options);
  INFO(read.status);
  REQUIRE(read.status.ok());
  REQUIRE(read.groups.size() == 2);
  const GroupOutcomes& first = read.groups[0].outcomes;
  CHECK(first[0][0].passed());
  CHECK(first[0][0].speedups[0].low == 2.5);  // 5.0 / 2.0 of level 1
  CHECK(first[1][0].status == VerdictStatus::kIncorrect);
  CHECK_THAT(first[1][0].correct_rate, WithinRel(0.4));
  CHECK(first[2][0].status == VerdictStatus::kRuntime);
  CHECK(first[3][0].status == VerdictStatus::kCompile);
  CHECK(read.groups[1].outcomes[0][0].speedups[0].low == 1.5);  // its own ref_runtime / runtime
  CHECK(read.summary.device == "NVIDIA L40S");
  options.level = 0;
  CHECK_THAT(std::string(ReadAll(folder / "eval_results.json", options).status.message()),
             ContainsSubstring("--level"));
}

TEST_CASE("KernelGYM results become groups, with coverage; decoys are cheats and its own failures INFRA", "[lab]") {
  const Folder folder;
  WriteText(
      folder / "results.jsonl",
      R"({"task_id": "t1", "problem_id": "p", "compiled": true, "correctness": true, "decoy_kernel": false, "speedup": 2.0, "status": "completed", "metadata": {"custom_kernel_cuda_time_in_profiling_us": 30, "total_kernel_run_time_in_profiling_us": 40}})"
      "\n"
      R"({"task_id": "t2", "problem_id": "p", "compiled": true, "correctness": true, "decoy_kernel": true, "speedup": 9.0, "status": "completed", "metadata": {}})"
      "\n"
      R"({"task_id": "t3", "problem_id": "q", "compiled": false, "correctness": false, "decoy_kernel": false, "status": "failed", "error_code": "COMPILATION_ERROR", "metadata": {}})"
      "\n"
      R"({"task_id": "t4", "problem_id": "p", "compiled": false, "correctness": false, "decoy_kernel": false, "status": "failed", "error_code": "WORKER_LOST", "metadata": {}})"
      "\n");
  const Read read = ReadAll(folder / "results.jsonl");
  REQUIRE(read.status.ok());
  REQUIRE(read.groups.size() == 2);
  CHECK(read.groups[0].outcomes[0][0].coverage == 0.75);
  CHECK(read.groups[0].outcomes[0][0].speedups[0].median == 2.0);
  CHECK(read.groups[0].outcomes[1][0].status == VerdictStatus::kCheat);
  CHECK(read.groups[0].outcomes[2][0].status == VerdictStatus::kInfra);
  CHECK(read.groups[1].outcomes[0][0].status == VerdictStatus::kCompile);
}

TEST_CASE("CUDA-L1's published candidates load, those without a candidate left out and counted", "[lab]") {
  const std::string path = SharedData("cuda_l1_h100.jsonl");
  if (path.empty()) SKIP("the published candidates are not beside this checkout");
  const Read read = ReadAll(path);
  REQUIRE(read.status.ok());
  CHECK(read.groups.size() == 227);  // 250 tasks, of which 23 have no candidate on the H100
  REQUIRE(read.summary.warnings.size() == 2);
  CHECK_THAT(read.summary.warnings[0], ContainsSubstring("claims"));
  CHECK_THAT(read.summary.warnings[1], ContainsSubstring("23 of 250"));
}

TEST_CASE("An error of the visitor stops the reading and comes back as it is", "[lab]") {
  const Folder folder;
  WriteJournal(folder / "journal.jsonl.zst", RandomGroups(500, 6));
  int seen = 0;
  const absl::Status status = ReadGroups({folder / "journal.jsonl.zst"}, {}, [&](LabGroup&&) {
                                return ++seen == 3 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
                              }).status();
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(seen == 3);
}

TEST_CASE("Reading changes no byte of a journal", "[lab]") {
  const Folder folder;
  WriteJournal(folder / "journal.jsonl.zst", RandomGroups(20, 5));
  const std::string before = *ReadFile(folder / "journal.jsonl.zst");
  WriteText(folder / "cut.jsonl.zst", before.substr(0, before.size() - 7));
  ReadAll(folder / "journal.jsonl.zst");
  ReadAll(folder / "cut.jsonl.zst");
  CHECK(*ReadFile(folder / "journal.jsonl.zst") == before);
  CHECK(*ReadFile(folder / "cut.jsonl.zst") == before.substr(0, before.size() - 7));
}

}  // namespace
}  // namespace hone::rewards
