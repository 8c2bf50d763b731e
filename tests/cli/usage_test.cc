// What every command says to bad words and bad files: one line that names them, exit code 2, and no exception's words.
// HONE_USAGE_ALL: every command with every kind of bad file (minutes), not with one in turn.

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "tests/support/test_programs.h"

namespace hone {
namespace {

using Words = std::vector<std::string>;

// Each command with its words, the last one of them a file; `kBad` stands for it.
constexpr char kBad[] = "<bad>";

std::vector<Words> CommandsWithFile() {
  std::vector<Words> commands = {{"convert", kBad, "out"},
                                 {"demonstrations", "--families", kBad, "--out", "o.jsonl", "--per-family", "1"},
                                 {"demonstrations", "--generated", "1", "--away-from", kBad, "--out", "o.jsonl"},
                                 {"eval", "samples", kBad},
                                 {"eval", "kernelbench", "--candidates", kBad, "--out", "kb"},
                                 {"eval", "kernelbench", "--candidates", "c.jsonl", "--tasks", kBad, "--out", "kb"},
                                 {"lab", "replay", kBad},
                                 {"lab", "noise-floor", kBad},
                                 {"lab", "simulate", kBad},
                                 {"lab", "simulate", "-c", kBad},
                                 {"lab", "explain", kBad},
                                 {"tasks", "list", kBad},
                                 {"tasks", "show", kBad},
                                 {"tasks", "import", kBad, "--out", "o.jsonl"},
                                 {"tasks", "audit", kBad},
                                 {"tasks", "decontaminate", "--training", kBad, "--evaluation", "suite"},
                                 {"tasks", "decontaminate", "--training", "suite", "--evaluation", kBad},
                                 {"verifier", "--config", kBad},
                                 {"verify", kBad, "c.jsonl"}};
#ifdef HONE_WITH_TORCH
  for (const char* command : {"rollout", "rft", "sft", "train"}) commands.push_back({command, kBad, "--runs", "runs"});
  commands.push_back({"eval", "policy", kBad, "--runs", "runs"});
  commands.push_back({"quickstart", "--config", kBad, "--runs", "runs"});
  commands.push_back({"worker", "--config", kBad, "--coordinator", "unix:/nowhere"});
  commands.push_back({"generate", kBad, "-p", "x"});
  commands.push_back({"serve", kBad});
  commands.push_back({"report", kBad});
#endif
  return commands;
}

RunResult Hone(const std::string& folder, const Words& words) {
  SpawnOptions options;
  options.argv = {TestProgram("hone")};
  options.argv.insert(options.argv.end(), words.begin(), words.end());
  options.working_folder = folder;
  options.environment = {"OMP_WAIT_POLICY=passive"};  // without it hone sets it and starts once more
  absl::StatusOr<RunResult> result = Run(options, absl::Seconds(60));
  REQUIRE(result.status().message() == "");
  return *std::move(result);
}

void CheckOneLine(const RunResult& result) {
  INFO(result.output);
  CHECK(result.exit_code == 2);
  const std::vector<std::string> lines = absl::StrSplit(result.output, '\n', absl::SkipEmpty());
  REQUIRE(lines.size() == 1);
  CHECK(absl::StartsWith(lines[0], "hone"));
  for (const char* foreign : {"exception", "json.", "terminate", "what()", "CLI::", "std::"}) CHECK_FALSE(absl::StrContains(lines[0], foreign));
}

TEST_CASE("A file that is missing, a folder, of bytes, cut or of other types ends every command with one line", "[cli]") {
  if (TestProgram("hone").empty()) SKIP("needs the build's programs");
  const TempFolder folder = TempFolder::Create("usage_test").value();
  const auto path = [&](const std::string& name) { return folder.path() + "/" + name; };
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes += static_cast<char>(i);
  REQUIRE(WriteFileAtomically(path("bytes"), bytes).ok());
  REQUIRE(WriteFileAtomically(path("bytes.jsonl"), bytes).ok());
  REQUIRE(WriteFileAtomically(path("cut.jsonl"), "{\"task\": \"softmax\", \"sig").ok());
  REQUIRE(WriteFileAtomically(path("list.jsonl"), "[1, 2]\n").ok());
  REQUIRE(WriteFileAtomically(path("c.jsonl"), "{\"task\": \"x\", \"candidate\": \"\"}\n").ok());
  REQUIRE(WriteFileAtomically(path("types.jsonl"),
                              R"({"task": 3, "id": 3, "level": "x", "prompt": 3, "messages": [{"role": 3, "content": 3}], "hone_task": 3})")
              .ok());
  REQUIRE(MakeFolders(path("folder")).ok());
  const std::vector<std::string> kinds = {"types.jsonl", "missing.jsonl", "cut.jsonl", "folder", "bytes.jsonl", "list.jsonl", "bytes"};
  const std::vector<Words> commands = CommandsWithFile();
  for (size_t c = 0; c < commands.size(); ++c) {
    for (size_t k = 0; k < kinds.size(); ++k) {
      if (std::getenv("HONE_USAGE_ALL") == nullptr && k != c % kinds.size()) continue;
      Words words = commands[c];
      for (std::string& word : words) {
        if (word == kBad) word = kinds[k];
      }
      std::string line;
      for (const std::string& word : words) absl::StrAppend(&line, " ", word);
      INFO("hone" << line);
      CheckOneLine(Hone(folder.path(), words));
    }
  }
  CHECK_FALSE(FileExists(path("out")));
  CHECK_FALSE(FileExists(path("o.jsonl")));
}

TEST_CASE("An option that a command does not know is named, with the nearest one", "[cli]") {
  if (TestProgram("hone").empty()) SKIP("needs the build's programs");
  const TempFolder folder = TempFolder::Create("usage_test").value();
  const RunResult result = Hone(folder.path(), {"doctor", "--jsn"});
  CheckOneLine(result);
  CHECK(absl::StrContains(result.output, "hone doctor: no option '--jsn'; did you mean '--json'?"));
  CheckOneLine(Hone(folder.path(), {"doctor", "more"}));
  CheckOneLine(Hone(folder.path(), {"convert"}));
  CheckOneLine(Hone(folder.path(), {"verifier", "--nothing"}));
  CheckOneLine(Hone(folder.path(), {"lab", "simulate", "--seeds", "many"}));
  CheckOneLine(Hone(folder.path(), {"tasks"}));
}

TEST_CASE("An output that cannot be written is told before the work, not after it", "[cli]") {
  if (TestProgram("hone").empty()) SKIP("needs the build's programs");
  const TempFolder folder = TempFolder::Create("usage_test").value();
  for (const Words& words : std::vector<Words>{{"demonstrations", "--generated", "1", "--out", "nowhere/o.jsonl"},
                                               {"tasks", "audit", "--markdown", "nowhere/audit.md"},
                                               {"tasks", "decontaminate", "--training", "suite", "--evaluation", "suite", "--clean", "nowhere/c.jsonl"}}) {
    const RunResult result = Hone(folder.path(), words);
    CheckOneLine(result);
    CHECK(absl::StrContains(result.output, "there is no folder nowhere"));
  }
}

}  // namespace
}  // namespace hone
