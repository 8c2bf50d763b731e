#include "base/task_suite.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/task_file.h"
#include "tests/support/reference_text.h"
#include "tests/support/shared_data.h"

namespace hone {
namespace {

constexpr char kModule[] = "class Model: pass\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n";

std::vector<Task> Suite() {
  absl::StatusOr<std::vector<Task>> tasks = LoadTasks(SuiteFolder());
  REQUIRE(tasks.status().message() == "");
  return *std::move(tasks);
}

void Write(const std::string& folder, const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(folder, "/", name);
  REQUIRE(MakeFolders(path.substr(0, path.find_last_of('/'))).ok());
  REQUIRE(WriteFileAtomically(path, text).ok());
}

bool IsPrime(int64_t n) {
  for (int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return n > 1;
}

}  // namespace

TEST_CASE("The built-in suite has at least 40 tasks over at least 10 families", "[base][suite]") {
  std::set<std::string> families;
  const std::vector<Task> suite = Suite();
  for (const Task& task : suite) families.insert(task.family);
  CHECK(suite.size() >= 40);
  CHECK(families.size() >= 10);
}

TEST_CASE("Between a fifth and a third of the suite is held out, in at least ten families", "[base][suite]") {
  const std::vector<Task> suite = Suite();
  std::set<std::string> families;
  size_t held_out = 0;
  for (const Task& task : suite) {
    if (task.split != Split::kHeldOut) continue;
    ++held_out;
    families.insert(task.family);
  }
  CHECK(held_out * 5 >= suite.size());
  CHECK(held_out * 3 <= suite.size());
  CHECK(families.size() >= 10);
}

TEST_CASE("Every task of the suite is described and lies in its family's folder under its id", "[base][suite]") {
  for (const Task& task : Suite()) {
    INFO(task.id);
    CHECK(!task.description.empty());
    CHECK(FileExists(absl::StrCat(SuiteFolder(), "/", task.family, "/", task.id, ".py")));
    CHECK(!task.timing_gpu.empty());
  }
}

TEST_CASE("No task of the suite makes a tensor without saying on which device", "[base][suite]") {
  CHECK(TensorsMadeNowhere("def forward(self, x):\n  return x + torch.ones(3)\n").size() == 1);
  for (const Task& task : Suite()) {
    INFO(task.id);
    CHECK(TensorsMadeNowhere(task.reference) == std::vector<std::string>());
  }
}

TEST_CASE("Every task of the suite is checked on a size that no block size divides", "[base][suite]") {
  for (const Task& task : Suite()) {
    INFO(task.id);
    CHECK(task.variants.size() >= 3);
    const bool has_odd_prime = std::any_of(task.variants.begin(), task.variants.end(), [](const Sizes& sizes) {
      return std::any_of(sizes.begin(), sizes.end(),
                         [](const auto& size) { return size.second > 4 && IsPrime(size.second); });
    });
    CHECK(has_odd_prime);
  }
}

TEST_CASE("A task is found by its id, and a wrong id suggests the nearest", "[base][suite]") {
  const absl::StatusOr<Task> task = LoadTask("row_range");
  REQUIRE(task.status().message() == "");
  CHECK(task->family == "row_reduction");
  const absl::StatusOr<Task> wrong = LoadTask("row_rnge");
  REQUIRE(wrong.status().code() == absl::StatusCode::kNotFound);
  CHECK(absl::StrContains(wrong.status().message(), "\"row_range\""));
}

TEST_CASE("A folder loads in the natural order of its file names, hidden and cache files left out", "[base][suite]") {
  const absl::StatusOr<TempFolder> folder = TempFolder::Create("suite");
  REQUIRE(folder.ok());
  for (const char* name : {"10_b.py", "9_a.py", "sub/x.py", ".hidden.py", "__pycache__/y.py"}) {
    Write(folder->path(), name, kModule);
  }
  Write(folder->path(), "notes.txt", "not a task");
  const absl::StatusOr<std::vector<Task>> tasks = LoadTasks(folder->path());
  REQUIRE(tasks.status().message() == "");
  REQUIRE(tasks->size() == 3);
  CHECK((*tasks)[0].id == "9_a");
  CHECK((*tasks)[1].id == "10_b");
  CHECK((*tasks)[2].id == "x");
}

TEST_CASE("A KernelBench checkout loads its level folders and nothing else", "[base][suite]") {
  const absl::StatusOr<TempFolder> folder = TempFolder::Create("suite");
  REQUIRE(folder.ok());
  Write(folder->path(), "setup.py", "no task");
  Write(folder->path(), "KernelBench/level1/2_Second.py", kModule);
  Write(folder->path(), "KernelBench/level1/10_Tenth.py", kModule);
  Write(folder->path(), "KernelBench/level3/1_First.py", kModule);
  const absl::StatusOr<std::vector<Task>> tasks = LoadTasks(folder->path());
  REQUIRE(tasks.status().message() == "");
  REQUIRE(tasks->size() == 3);
  CHECK((*tasks)[0].id == KernelBenchId(1, 2));
  CHECK((*tasks)[1].id == KernelBenchId(1, 10));
  CHECK((*tasks)[2].id == KernelBenchId(3, 1));
}

TEST_CASE("Two tasks with one id are an error that names both", "[base][suite]") {
  const absl::StatusOr<TempFolder> folder = TempFolder::Create("suite");
  REQUIRE(folder.ok());
  Write(folder->path(), "a/same.py", kModule);
  Write(folder->path(), "b/same.py", kModule);
  const absl::StatusOr<std::vector<Task>> tasks = LoadTasks(folder->path());
  REQUIRE(tasks.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(absl::StrContains(tasks.status().message(), "a/same.py"));
  CHECK(absl::StrContains(tasks.status().message(), "b/same.py"));
}

TEST_CASE("A collection in JSON Lines names the line that is bad", "[base][suite]") {
  const absl::StatusOr<TempFolder> folder = TempFolder::Create("suite");
  REQUIRE(folder.ok());
  Task task;
  task.id = "a";
  task.reference = kModule;
  Write(folder->path(), "tasks.jsonl", absl::StrCat(TaskToJson(task), "\n\n{\"hone_task\": 1}\n"));
  const absl::StatusOr<std::vector<Task>> tasks = LoadTasks(folder->path() + "/tasks.jsonl");
  REQUIRE(!tasks.ok());
  CHECK(absl::StrContains(tasks.status().message(), "tasks.jsonl:3"));
}

TEST_CASE("A path that is missing, empty or of another kind is an error", "[base][suite]") {
  const absl::StatusOr<TempFolder> folder = TempFolder::Create("suite");
  REQUIRE(folder.ok());
  CHECK(LoadTasks(folder->path() + "/none.py").status().code() == absl::StatusCode::kNotFound);
  CHECK(LoadTasks(folder->path()).status().code() == absl::StatusCode::kInvalidArgument);
  Write(folder->path(), "a.txt", "");
  CHECK(LoadTasks(folder->path() + "/a.txt").status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("KernelBench's 270 tasks load and survive the way through hone's own JSON", "[base][suite]") {
  const std::string path = SharedData("kernelbench.jsonl");
  if (path.empty()) SKIP("needs KernelBench's tasks: set HONE_SHARED to the folder that holds data/");
  const absl::StatusOr<std::vector<Task>> tasks = LoadTasks(path);
  REQUIRE(tasks.status().message() == "");
  std::map<int, int> by_level;
  for (const Task& task : *tasks) {
    ++by_level[task.level];
    const absl::StatusOr<Task> back = TaskFromJson(TaskToJson(task), "x");
    REQUIRE(back.status().message() == "");
    CHECK(*back == task);
  }
  CHECK(by_level == std::map<int, int>{{1, 100}, {2, 100}, {3, 50}, {4, 20}});
}

TEST_CASE("No task of the suite has the name of one of KernelBench's", "[base][suite]") {
  const std::string path = SharedData("kernelbench.jsonl");
  if (path.empty()) SKIP("needs KernelBench's tasks: set HONE_SHARED to the folder that holds data/");
  const absl::StatusOr<std::vector<Task>> foreign = LoadTasks(path);
  REQUIRE(foreign.ok());
  for (const Task& task : Suite()) {
    for (const Task& other : *foreign) {
      std::string name = other.description;
      std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c == ' ' ? '_' : std::tolower(c); });
      CHECK(task.id != name);
    }
  }
}

}  // namespace hone
