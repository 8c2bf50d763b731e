// `hone tasks` as a user meets it: what it prints, and its exit codes.

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace hone {
namespace {

RunResult Hone(std::vector<std::string> arguments) {
  const char* folder = std::getenv("HONE_TEST_BIN");
  SpawnOptions options;
  options.argv = {absl::StrCat(folder != nullptr ? folder : "build/release/bin", "/hone"), "tasks"};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  absl::StatusOr<RunResult> result = Run(options, absl::Minutes(2));
  REQUIRE(result.status().message() == "");
  UNSCOPED_INFO(result->output);
  return *std::move(result);
}

bool IsOneLine(const std::string& text) { return std::count(text.begin(), text.end(), '\n') == 1 && text.back() == '\n'; }

constexpr char kWeakTask[] =
    "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x * 1e-6\n"
    "def get_inputs():\n    return [torch.randn(8, 8)]\ndef get_init_inputs():\n    return []\n";

class Folder {
 public:
  Folder() : folder_(TempFolder::Create("tasks_command").value()) {}
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = Path(name);
    REQUIRE(WriteFileAtomically(path, text).ok());
    return path;
  }
  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

 private:
  TempFolder folder_;
};

}  // namespace

TEST_CASE("list shows each task of the asked-for split and family and no other", "[cli][tasks]") {
  const RunResult result = Hone({"list", "--split", "held_out", "--family", "row_reduction"});
  CHECK(result.exit_code == 0);
  CHECK(absl::StrContains(result.output, "row_rms"));
  CHECK(!absl::StrContains(result.output, "row_range"));  // train
  CHECK(!absl::StrContains(result.output, "column_peak"));
}

TEST_CASE("show prints the reference without its header, and an unknown id or command is the user's one-line error", "[cli][tasks]") {
  const RunResult shown = Hone({"show", "row_range"});
  CHECK(shown.exit_code == 0);
  CHECK(absl::StrContains(shown.output, "return x.amax(dim=1) - x.amin(dim=1)"));
  CHECK(!absl::StrContains(shown.output, "# ---"));
  const RunResult unknown = Hone({"show", "row_rnge"});
  CHECK(unknown.exit_code == 2);
  CHECK(IsOneLine(unknown.output));
  CHECK(absl::StrContains(unknown.output, "row_range"));
  const RunResult command = Hone({"lst"});
  CHECK(command.exit_code == 2);
  CHECK(IsOneLine(command.output));
  CHECK(absl::StrContains(command.output, "no command 'lst'; did you mean 'list'?"));
}

TEST_CASE("import writes a collection that list reads, and a bad task leaves nothing behind", "[cli][tasks]") {
  Folder folder;
  const std::string task = folder.Write("one.py", kWeakTask);
  const std::string out = folder.Path("all.jsonl");
  CHECK(Hone({"import", task, "--out", out}).exit_code == 0);
  CHECK(absl::StrContains(Hone({"list", out}).output, "one "));

  const std::string bad = folder.Write("bad.py", absl::StrCat("# ---\n# level: 12\n# ---\n", kWeakTask));
  const std::string never = folder.Path("never.jsonl");
  const RunResult failed = Hone({"import", bad, "--out", never});
  CHECK(failed.exit_code == 2);
  CHECK(IsOneLine(failed.output));
  CHECK(absl::StrContains(failed.output, "bad.py:2"));
  CHECK(!FileExists(never));
}

TEST_CASE("audit ends with 3 when a task is weak, names it, and marks it in the collection it writes", "[cli][tasks]") {
  Folder folder;
  const std::string task = folder.Write("one.py", kWeakTask);
  const std::string out = folder.Path("audited.jsonl"), page = folder.Path("page.md");
  const RunResult result = Hone({"audit", task, "--out", out, "--markdown", page});
  if (absl::StrContains(result.output, "cannot import torch")) SKIP(result.output);
  CHECK(result.exit_code == 3);
  CHECK(absl::StrContains(ReadFile(page).value(), "| one | weak | passed by: "));
  CHECK(absl::StrContains(ReadFile(out).value(), "\"weak\":true"));
}

TEST_CASE("audit with an interpreter that has no torch is the user's error", "[cli][tasks]") {
  const RunResult result = Hone({"audit", "--python", "/bin/false"});
  CHECK(result.exit_code == 2);
  CHECK(absl::StrContains(result.output, "cannot import torch"));
}

TEST_CASE("decontaminate names a near copy and ends with 3, or writes the other tasks", "[cli][tasks]") {
  constexpr char kOther[] =
      "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x, y):\n        return torch.cumsum(x @ y, dim=0).tanh()\n"
      "def get_inputs():\n    return [torch.randn(8, 8), torch.randn(8, 8)]\ndef get_init_inputs():\n    return []\n";
  Folder folder;
  const std::string train = folder.Write("train.jsonl", "");
  REQUIRE(MakeFolders(folder.Path("train")).ok());
  folder.Write("train/copy.py", kWeakTask);
  folder.Write("train/other.py", kOther);
  const std::string evaluation = folder.Write("evaluated.py", absl::StrCat("# evaluated\n", kWeakTask));
  const std::vector<std::string> check = {"decontaminate", "--training", folder.Path("train"), "--evaluation", evaluation};
  const RunResult found = Hone(check);
  CHECK(found.exit_code == 3);
  CHECK(absl::StrContains(found.output, "near copies (similarity of at least 0.8): 1"));
  std::vector<std::string> clean = check;
  clean.insert(clean.end(), {"--clean", train});
  CHECK(Hone(clean).exit_code == 0);
  const std::string kept = ReadFile(train).value();
  CHECK(absl::StrContains(kept, "cumsum"));
  CHECK(!absl::StrContains(kept, "1e-6"));
}

}  // namespace hone
