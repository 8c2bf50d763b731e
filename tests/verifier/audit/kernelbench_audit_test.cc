// The audit over a foreign collection of 270 tasks, most of them too large to run as they are. Takes half an hour.

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <map>
#include <string>

#include "base/file.h"
#include "base/task_file.h"
#include "base/task_suite.h"
#include "tests/support/shared_data.h"
#include "verifier/audit/audit.h"

namespace hone::verifier {

TEST_CASE("The audit of KernelBench gives every task an outcome and finds the answers known to pass without work",
          "[verifier][audit][nightly]") {
  const std::string path = SharedData("kernelbench.jsonl");
  if (path.empty()) SKIP("needs KernelBench's tasks: set HONE_SHARED to the folder that holds data/");
  AuditOptions options;
  const char* python = std::getenv("HONE_PYTHON");
  options.python = python != nullptr && *python != '\0' ? python : "python3";
  const absl::StatusOr<std::vector<Task>> tasks = LoadTasks(path);
  REQUIRE(tasks.status().message() == "");
  const auto audits = AuditTasks(*tasks, options, nullptr);
  if (absl::IsFailedPrecondition(audits.status())) SKIP(audits.status().message());
  REQUIRE(audits.status().message() == "");
  REQUIRE(audits->size() == tasks->size());
  std::map<std::string, const TaskAudit*> by_id;
  size_t skipped = 0;
  for (const TaskAudit& audit : *audits) {
    by_id[audit.id] = &audit;
    skipped += audit.outcome == TaskAudit::Outcome::kSkipped;
    if (audit.outcome == TaskAudit::Outcome::kSkipped) CHECK(!audit.reason.empty());
  }
  CHECK(by_id.size() == tasks->size());
  CHECK(skipped * 4 < tasks->size());
  // A rectifier of values in [0, 1), and a softmax over so many values that each lies below the tolerance.
  for (const int problem : {19, 23}) {
    const TaskAudit& audit = *by_id.at(KernelBenchId(1, problem));
    INFO(AuditToJson(audit));
    CHECK(audit.outcome == TaskAudit::Outcome::kWeak);
  }
}

}  // namespace hone::verifier
