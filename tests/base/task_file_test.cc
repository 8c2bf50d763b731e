#include "base/task_file.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hone {
namespace {

constexpr char kModule[] =
    "import torch\n"
    "rows = 4\n"
    "cols = rows * 2\n"
    "class Model(torch.nn.Module):\n"
    "    def forward(self, x):\n"
    "        return x + 1\n"
    "def get_inputs():\n"
    "    return [torch.randn(rows, cols)]\n"
    "def get_init_inputs():\n"
    "    return []\n";

std::string WithHeader(const std::string& lines) { return absl::StrCat("# ---\n", lines, "# ---\n", kModule); }

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Task> task = ParseTaskFile(text, "dir/some_task.py");
  REQUIRE(!task.ok());
  CHECK(task.status().code() == absl::StatusCode::kInvalidArgument);
  const std::string message(task.status().message());
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

bool Says(const std::string& message, const std::string& part) {
  UNSCOPED_INFO(message);
  return absl::StrContains(message, part);
}

Task FullTask() {
  Task task;
  task.id = "full";
  task.level = 3;
  task.family = "odd \"family\"";
  task.description = "a: colon, a # and \"quotes\"";
  task.split = Split::kHeldOut;
  task.dtype = DType::kFloat16;
  task.tolerance = {1e-3, 2.5e-2};
  task.variants = {{{"rows", 1}, {"cols", 1}}, {{"rows", 7}}};
  task.timing = {{"cols", 64}};
  task.timing_gpu = {{"rows", int64_t{1} << 33}};
  task.profiles = {ValueProfile::kAsGiven, ValueProfile::kSpecial};
  task.legality = {true, {"rule_a", "rule_b"}};
  task.weak = true;
  task.reference = kModule;
  return task;
}

}  // namespace

TEST_CASE("A module without a header is a task with every default and the file's name as id", "[base][task]") {
  const absl::StatusOr<Task> task = ParseTaskFile(kModule, "dir/some_task.py");
  REQUIRE(task.ok());
  Task expected;
  expected.id = "some_task";
  expected.family = "other";
  expected.reference = kModule;
  CHECK(*task == expected);
}

TEST_CASE("Every key of a header arrives in the task and the header leaves the reference", "[base][task]") {
  const absl::StatusOr<Task> task = ParseTaskFile(
      WithHeader("# id: row_plus\n# level: 2\n# family: simple\n# split: held_out\n# dtype: float16\n"
                 "# description: adds one\n# variants:\n#   - rows=1 cols=3\n#   - rows=5\n# timing: rows=8\n"
                 "# timing_gpu: rows=1024 cols=4096\n# profiles: [as_given, sparse]\n# tolerance: {atol: 0.5}\n"
                 "# legality:\n#   allow_library_kernels: true\n#   disabled_rules: [a, b]\n# weak: true\n"),
      "x.py");
  REQUIRE(task.status().message() == "");
  CHECK(task->id == "row_plus");
  CHECK(task->level == 2);
  CHECK(task->family == "simple");
  CHECK(task->split == Split::kHeldOut);
  CHECK(task->dtype == DType::kFloat16);
  CHECK(task->description == "adds one");
  CHECK(task->variants == std::vector<Sizes>{{{"rows", 1}, {"cols", 3}}, {{"rows", 5}}});
  CHECK(task->timing == Sizes{{"rows", 8}});
  CHECK(task->timing_gpu == Sizes{{"rows", 1024}, {"cols", 4096}});
  CHECK(task->profiles == std::vector<ValueProfile>{ValueProfile::kAsGiven, ValueProfile::kSparse});
  CHECK(task->tolerance == Tolerance{0.5, 1e-2});  // rtol stays float16's
  CHECK(task->legality == LegalityPolicy{true, {"a", "b"}});
  CHECK(task->weak);
  CHECK(task->reference == kModule);
}

TEST_CASE("A bad header is one line that names the file, the line and what is allowed", "[base][task]") {
  const std::string unknown = ErrorOf(WithHeader("# id: a\n# famly: x\n"));
  CHECK(Says(unknown, "dir/some_task.py:3"));
  CHECK(Says(unknown, "family"));  // the nearest key

  const std::string range = ErrorOf(WithHeader("# level: 9\n"));
  CHECK(Says(range, "dir/some_task.py:2"));
  CHECK(Says(range, "[1, 4]"));

  const std::string duplicate = ErrorOf(WithHeader("# id: a\n# level: 1\n# id: b\n"));
  CHECK(Says(duplicate, "dir/some_task.py:4"));

  const std::string type = ErrorOf(WithHeader("# level: easy\n"));
  CHECK(Says(type, "dir/some_task.py:2"));

  const std::string split = ErrorOf(WithHeader("# split: test\n"));
  CHECK(Says(split, "held_out"));

  const std::string profile = ErrorOf(WithHeader("# id: a\n# profiles: [as_given, huge]\n"));
  CHECK(Says(profile, "dir/some_task.py:3"));
  CHECK(Says(profile, "signed_normal"));
}

TEST_CASE("Sizes must be constants of the module and at least one", "[base][task]") {
  const std::string unknown = ErrorOf(WithHeader("# id: a\n# variants: [rows=3 depth=2]\n"));
  CHECK(Says(unknown, "dir/some_task.py:3"));
  CHECK(Says(unknown, "depth"));
  CHECK(Says(unknown, "rows, cols"));
  CHECK(Says(ErrorOf(WithHeader("# timing: rows=0\n")), "from 1 to"));
  CHECK(Says(ErrorOf(WithHeader("# timing_gpu: rows\n")), "name=number"));
  CHECK(Says(ErrorOf(WithHeader("# variants: [rows=1 rows=2]\n")), "twice"));
}

TEST_CASE("A header that does not end is an error at its line", "[base][task]") {
  CHECK(Says(ErrorOf("# ---\n# id: a\n"), "dir/some_task.py:1"));
  CHECK(Says(ErrorOf(absl::StrCat("# ---\n# id: a\n", kModule)), "dir/some_task.py:3"));
}

TEST_CASE("A module without Model, get_inputs or get_init_inputs is refused with the missing name", "[base][task]") {
  std::string module = kModule;
  CHECK(Says(ErrorOf(module.substr(module.find("def get_inputs"))), "class Model"));
  std::string renamed = module;
  renamed.replace(renamed.find("get_inputs"), 10, "inputs_get");
  CHECK(Says(ErrorOf(renamed), "no get_inputs()"));
  CHECK(Says(ErrorOf(module.substr(0, module.find("def get_init_inputs"))), "no get_init_inputs()"));
  CHECK(Says(ErrorOf(""), "class Model"));
}

TEST_CASE("Text that is not UTF-8 or too large is refused", "[base][task]") {
  CHECK(Says(ErrorOf(absl::StrCat(kModule, "# \xff\n")), "dir/some_task.py:11: not UTF-8"));
  CHECK(Says(ErrorOf(absl::StrCat(kModule, std::string(kMaxTaskBytes, '#'))), "at most 1048576"));
}

TEST_CASE("A task file reads back to the same task", "[base][task]") {
  const Task task = FullTask();
  const absl::StatusOr<Task> back = ParseTaskFile(FormatTaskFile(task), "other.py");
  REQUIRE(back.status().message() == "");
  CHECK(*back == task);
}

TEST_CASE("A task in JSON is one line and reads back to the same task, scalar baseline included", "[base][task]") {
  Task task = FullTask();
  task.scalar_baseline = "extern \"C\" void launch() {}\n";
  const std::string line = TaskToJson(task);
  CHECK(line.find('\n') == std::string::npos);
  const absl::StatusOr<Task> back = TaskFromJson(line, "tasks.jsonl:1");
  REQUIRE(back.status().message() == "");
  CHECK(*back == task);
}

TEST_CASE("Bad JSON tasks are one line with the place", "[base][task]") {
  for (const std::string line : {"", "[]", "{\"hone_task\": 2}", "{\"hone_task\": 1, \"id\": \"a\"}", "{\"level\": 1}",
                                 "{\"level\": 9, \"problem_id\": 1, \"name\": \"a\", \"code\": \"\"}"}) {
    const absl::StatusOr<Task> task = TaskFromJson(line, "tasks.jsonl:12");
    REQUIRE(!task.ok());
    CHECK(Says(std::string(task.status().message()), "tasks.jsonl:12"));
  }
  Task task = FullTask();
  std::string line = TaskToJson(task);
  line.replace(line.find("\"level\":3"), 9, "\"level\":7");
  const absl::StatusOr<Task> out_of_range = TaskFromJson(line, "tasks.jsonl:12");
  REQUIRE(!out_of_range.ok());
  CHECK(Says(std::string(out_of_range.status().message()), "[1, 4]"));
}

TEST_CASE("KernelBench's JSON and its checkout give a task the same id", "[base][task]") {
  const std::string line = absl::StrCat(
      "{\"level\": 2, \"problem_id\": 23, \"name\": \"Some_op\", \"code\": \"class Model: pass\\ndef get_inputs(): "
      "pass\\n",
      "def get_init_inputs(): pass\\n\"}");
  const absl::StatusOr<Task> from_json = TaskFromJson(line, "k.jsonl:1");
  REQUIRE(from_json.status().message() == "");
  const absl::StatusOr<Task> from_file = ParseTaskFile(from_json->reference, "KernelBench/level2/23_Some_op.py");
  REQUIRE(from_file.ok());
  CHECK(*from_json == *from_file);
  CHECK(from_json->id == KernelBenchId(2, 23));
  CHECK(from_json->level == 2);
  CHECK(from_json->description == "Some op");
}

TEST_CASE("Module constants are the names assigned at top level", "[base][task]") {
  CHECK(ModuleConstants("a = 1\nb=2 * a\nclass C:\n    d = 3\nif a == 1:\n    e = 4\na == 5\na = 6\nf += 1\n") ==
        std::vector<std::string>{"a", "b"});
}

}  // namespace hone
