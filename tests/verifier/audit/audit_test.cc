#include "verifier/audit/audit.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/task_suite.h"

namespace hone::verifier {
namespace {

using Outcome = TaskAudit::Outcome;

AuditOptions Options() {
  AuditOptions options;
  const char* python = std::getenv("HONE_PYTHON");
  options.python = python != nullptr && *python != '\0' ? python : "python3";
  return options;
}

Task TaskOf(const std::string& id, const std::string& body, const std::string& inputs = "torch.randn(64, 32)") {
  Task task;
  task.id = id;
  task.reference = absl::StrCat("import torch\nimport torch.nn as nn\nimport os\nimport time\nclass Model(nn.Module):\n    def forward(self, x):\n",
                                "        ", body, "\ndef get_inputs():\n    return [", inputs,
                                "]\ndef get_init_inputs():\n    return []\n");
  return task;
}

std::vector<TaskAudit> Audit(const std::vector<Task>& tasks, const AuditOptions& options = Options()) {
  absl::StatusOr<std::vector<TaskAudit>> audits = AuditTasks(tasks, options, nullptr);
  if (absl::IsFailedPrecondition(audits.status())) SKIP(audits.status().message());
  REQUIRE(audits.status().message() == "");
  REQUIRE(audits->size() == tasks.size());
  return *std::move(audits);
}

bool PassedBy(const TaskAudit& audit, const std::string& answer) {
  return std::find(audit.weak_by.begin(), audit.weak_by.end(), answer) != audit.weak_by.end();
}

}  // namespace

TEST_CASE("Each kind of answer without work is found on a task that it passes", "[verifier][audit]") {
  const std::vector<TaskAudit> audits = Audit({
      TaskOf("below_tolerance", "return x * 1e-6"),
      TaskOf("ones", "return torch.exp(x * 1e-6)"),
      TaskOf("fill", "return torch.full_like(x, 0.25)"),
      TaskOf("softmax_over_much", "return torch.softmax(x, dim=1)", "torch.rand(2, 100000)"),
      TaskOf("copy", "return x.clone()"),
      TaskOf("mean", "return x.mean().expand(64).clone()"),
      TaskOf("blind", "return torch.sin(torch.arange(999.0))"),
      TaskOf("honest", "return torch.sin(x).sum(dim=1)"),
  });
  CHECK(PassedBy(audits[0], "zero"));
  CHECK(PassedBy(audits[1], "one"));
  CHECK(PassedBy(audits[2], "constant"));
  CHECK(PassedBy(audits[3], "zero"));
  CHECK(PassedBy(audits[4], "identity"));
  CHECK(PassedBy(audits[5], "input_mean"));
  CHECK(audits[6].weak_by == std::vector<std::string>{"other_inputs"});
  for (size_t i = 0; i < 7; ++i) CHECK(audits[i].outcome == Outcome::kWeak);
  CHECK(audits[7].outcome == Outcome::kSound);
  CHECK(audits[7].weak_by.empty());
}

TEST_CASE("References that raise, are not finite or differ between calls are unusable, with the reason", "[verifier][audit]") {
  const std::vector<TaskAudit> audits = Audit({
      TaskOf("raises", "raise ValueError('no such thing')"),
      TaskOf("infinite", "return x / 0.0"),
      TaskOf("random", "return torch.nn.functional.dropout(x)"),
      TaskOf("honest", "return torch.sin(x)"),
  });
  for (size_t i = 0; i < 3; ++i) CHECK(audits[i].outcome == Outcome::kUnusable);
  CHECK(absl::StrContains(audits[0].reason, "ValueError: no such thing"));
  CHECK(absl::StrContains(audits[0].reason, "line 7"));
  CHECK(absl::StrContains(audits[1].reason, "not finite"));
  CHECK(absl::StrContains(audits[2].reason, "differ"));
  CHECK(audits[3].outcome == Outcome::kSound);
}

TEST_CASE("A task that hangs or kills its worker is skipped and the next ones are audited", "[verifier][audit]") {
  AuditOptions options = Options();
  options.per_task = absl::Seconds(5);
  const std::vector<TaskAudit> audits = Audit({TaskOf("dies", "os._exit(1)"), TaskOf("honest", "return torch.sin(x)"),
                                               TaskOf("hangs", "time.sleep(1000)"), TaskOf("also", "return torch.cos(x)")},
                                              options);
  CHECK(audits[0].outcome == Outcome::kSkipped);
  CHECK(absl::StrContains(audits[0].reason, "died"));
  CHECK(audits[1].outcome == Outcome::kSound);
  CHECK(audits[2].outcome == Outcome::kSkipped);
  CHECK(absl::StrContains(audits[2].reason, "longer than"));
  CHECK(audits[3].outcome == Outcome::kSound);
}

TEST_CASE("A costly task is audited with its batch cut first, and the sizes are named", "[verifier][audit]") {
  Task task = TaskOf("costly", "return torch.softmax(x, dim=1)", "torch.rand(batch_size, cols)");
  task.reference = absl::StrCat("batch_size = 4096\ncols = 200000\n", task.reference);
  const std::vector<TaskAudit> audits = Audit({task});
  CHECK(audits[0].sizes == Sizes{{"batch_size", 2}});
  CHECK(audits[0].outcome == Outcome::kWeak);  // 1/200000 is below the tolerance
}

TEST_CASE("Operations that an answer does not need are named, and those that it needs are not", "[verifier][audit]") {
  const std::vector<TaskAudit> audits = Audit({
      TaskOf("clamped", "return torch.relu(torch.exp(x))"),
      TaskOf("unused", "y = torch.cumsum(x, dim=1)\n        return torch.sin(x)"),
      TaskOf("hidden", "return torch.sin(x) + 1e-7 * torch.cos(x)"),
      TaskOf("in_place", "return torch.exp(x).abs_().mul_(1.0)"),
      TaskOf("needed", "return torch.relu(torch.sin(x)).sum(dim=1)"),
      TaskOf("counted", "seen = torch.zeros((), dtype=torch.int64)\n        seen.add_(1)\n        return torch.sin(x)"),
  });
  CHECK(audits[0].redundant == std::vector<std::string>{"relu (2 of 2, left out)"});
  CHECK(audits[1].redundant == std::vector<std::string>{"cumsum (1 of 2, left out)"});
  // cos, its weight, and their sum with what it does not change
  CHECK(std::count(audits[2].redundant.begin(), audits[2].redundant.end(), "cos (2 of 4, left out)") == 1);
  CHECK(std::count(audits[2].redundant.begin(), audits[2].redundant.end(), "add (4 of 4, left out)") == 1);
  CHECK(audits[3].redundant == std::vector<std::string>{"abs_ (2 of 3, left out)", "mul_ (3 of 3, left out)"});
  CHECK(audits[4].redundant.empty());
  CHECK(audits[5].redundant.empty());  // a counter, as BatchNorm has one, is bookkeeping
  for (const TaskAudit& audit : audits) {
    INFO(AuditToJson(audit));
    CHECK(audit.operations_tried == audit.operations);
    CHECK(audit.outcome == Outcome::kSound);
  }
}

TEST_CASE("An interpreter without torch is our failure, told before any task", "[verifier][audit]") {
  AuditOptions options = Options();
  options.python = "/bin/false";
  CHECK(AuditTasks({TaskOf("a", "return x")}, options, nullptr).status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("No task of the built-in suite is weak, faint or unusable, and its references stay within half a tolerance",
          "[verifier][audit]") {
  const absl::StatusOr<std::vector<Task>> suite = LoadTasks(SuiteFolder());
  REQUIRE(suite.status().message() == "");
  for (const TaskAudit& audit : Audit(*suite)) {
    INFO(AuditToJson(audit));
    CHECK(audit.outcome == Outcome::kSound);
    CHECK(audit.sizes.empty());
    REQUIRE(audit.own_error_in_tolerances);
    CHECK(*audit.own_error_in_tolerances < 0.5);
  }
}

TEST_CASE("The page names every task that is not sound and counts the others", "[verifier][audit]") {
  TaskAudit weak{.id = "bad_one", .outcome = Outcome::kWeak, .weak_by = {"zero"}};
  TaskAudit sound{.id = "good_one", .outcome = Outcome::kSound};
  const std::string page = AuditToMarkdown("Some tasks", {weak, sound});
  CHECK(absl::StrContains(page, "2 tasks: 1 sound, 0 faint, 1 weak"));
  CHECK(absl::StrContains(page, "| bad_one | weak | passed by: zero |"));
  CHECK(!absl::StrContains(page, "good_one"));
  sound.redundant = {"relu (2 of 2, left out)"};
  CHECK(absl::StrContains(AuditToMarkdown("Some tasks", {sound}), "| good_one | relu (2 of 2, left out) |"));
}

}  // namespace hone::verifier
