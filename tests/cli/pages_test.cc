// The pages against the program: every command line that a page shows has a command and options that there are.

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace hone {
namespace {

namespace fs = std::filesystem;

/// What a program's commands may be given, by asking them.
class Help {
 public:
  /// The options of "hone lab replay"; empty where there is no such command.
  const std::set<std::string>& Options(const std::string& command) {
    if (const auto known = options_.find(command); known != options_.end()) return known->second;
    std::set<std::string>& options = options_[command];
    const char* folder = std::getenv("HONE_TEST_BIN");
    SpawnOptions spawn;
    spawn.argv = absl::StrSplit(absl::StrCat(folder != nullptr ? folder : "build/release/bin", "/", command, " --help"), ' ');
    const absl::StatusOr<RunResult> result = Run(spawn, absl::Minutes(1));
    REQUIRE(result.status().message() == "");
    if (result->exit_code != 0) return options;
    static const std::regex kOption("(?:^|[^A-Za-z0-9_-])(--?[a-z][a-z0-9-]*)");
    for (std::sregex_iterator match(result->output.begin(), result->output.end(), kOption), end; match != end; ++match) {
      options.insert((*match)[1].str());
    }
    return options;
  }

 private:
  std::map<std::string, std::set<std::string>> options_;
};

bool IsWord(const std::string& word) {
  static const std::regex kWord("[a-z][a-z-]*");
  return std::regex_match(word, kWord);
}

bool HasCommands(const std::string& command) {
  return command == "hone" || command == "hone lab" || command == "hone eval" || command == "hone tasks";
}

/// What is wrong with one command line of a page; empty: nothing.
std::string Fault(const std::string& line, Help& help) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  std::string command = words[0];
  size_t next = 1;
  while (next < words.size() && HasCommands(command) && IsWord(words[next])) command += " " + words[next++];
  if (command == "hone verifier" && next < words.size() && words[next] == "top") command += " " + words[next++];
  const std::set<std::string>& options = help.Options(command);
  if (options.empty()) return absl::StrCat("there is no command '", command, "'");
  static const std::regex kOption("(--?[a-z][a-z0-9-]*).*");
  for (std::smatch match; next < words.size(); ++next) {
    if (words[next] == "|" || words[next] == "&" || words[next] == "&&" || words[next][0] == '#') break;
    if (std::regex_match(words[next], match, kOption) && options.count(match[1].str()) == 0) {
      return absl::StrCat("'", command, "' has no option ", match[1].str());
    }
  }
  return "";
}

bool StartsWithProgram(const std::string& text) {
  static const std::regex kProgram("(hone|hone-verifier) [a-z-].*");
  return std::regex_match(text, kProgram);
}

/// The command lines of a page: lines of code, and code between backquotes, that begin with one of our programs.
std::vector<std::string> CommandLines(const std::string& text) {
  std::vector<std::string> commands;
  bool fenced = false;
  const std::vector<std::string> lines = absl::StrSplit(absl::StrReplaceAll(text, {{"\\\n", " "}}), '\n');
  for (const std::string& line : lines) {
    if (absl::StartsWith(line, "```")) fenced = !fenced;
    if (fenced || absl::StartsWith(line, "    ")) {
      std::string code(absl::StripAsciiWhitespace(line));
      if (absl::StartsWith(code, "$ ")) code = code.substr(2);
      if (StartsWithProgram(code)) commands.push_back(code);
      continue;
    }
    const std::vector<std::string> spans = absl::StrSplit(line, '`');
    for (size_t i = 1; i < spans.size(); i += 2) {
      if (StartsWithProgram(spans[i])) commands.push_back(spans[i]);
    }
  }
  return commands;
}

}  // namespace

TEST_CASE("Every command line of the pages has a command and options that there are", "[cli][docs]") {
  Help help;
  const std::string root = HONE_SOURCE_FOLDER;
  std::vector<std::string> pages = {root + "/README.md", root + "/examples/qwen2.5-coder-1.5b/README.md"};
  for (const auto& entry : fs::directory_iterator(root + "/docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path().string());
  }
  int lines = 0;
  for (const std::string& page : pages) {
    for (const std::string& line : CommandLines(ReadFile(page).value())) {
      ++lines;
      INFO(page << ": " << line);
      CHECK(Fault(line, help) == "");
    }
  }
  CHECK(lines > 60);
}

TEST_CASE("The check itself finds an unknown command and an unknown option", "[cli][docs]") {
  Help help;
  CHECK(Fault("hone lab replay a.jsonl -p mine.yaml --sweep k=1,2 --out lab", help) == "");
  CHECK(Fault("hone lab reply a.jsonl", help) == "there is no command 'hone lab reply'");
  CHECK(Fault("hone verify task a.cu --fast | head --lines 1", help) == "'hone verify' has no option --fast");
  CHECK(Fault("hone-verifier --listen 127.0.0.1:1 --port 3", help) == "'hone-verifier' has no option --port");
  CHECK(CommandLines("hone verifies\n    hone verify a \\\n      b.cu\nsee `hone doctor --json`\n```\n$ hone tasks list\n```\nhone tasks") ==
        std::vector<std::string>{"hone verify a        b.cu", "hone doctor --json", "hone tasks list"});
}

}  // namespace hone
