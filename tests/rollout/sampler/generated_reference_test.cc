// Generated tasks against PyTorch: what the verifier derives from their references, and whether they are worth training on.

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "rollout/sampler/generator.h"
#include "verifier/audit/audit.h"
#include "verifier/lane/lane.h"

namespace hone::rollout {
namespace {

std::string Python() {
  const char* python = std::getenv("HONE_PYTHON");
  return python != nullptr && *python != '\0' ? python : "python3";
}

std::vector<GeneratedTask> NamedAndDrawn(int drawn) {
  std::vector<GeneratedTask> tasks = NamedTasks(Split::kHeldOut);
  for (GeneratedTask& task : NamedTasks(Split::kTrain)) tasks.push_back(std::move(task));
  Generator generator(31);
  for (int i = 0; i < drawn; ++i) tasks.push_back(MakeTask(generator.NextProgram()));
  return tasks;
}

}  // namespace

TEST_CASE("The verifier derives from each task's reference the signature that its prompt shows", "[rollout][generator]") {
  verifier::LaneOptions options;
  options.python = Python();
  const auto lane = verifier::Lane::Create(options);
  if (!lane.ok()) SKIP(lane.status().message());
  for (const GeneratedTask& task : NamedAndDrawn(100)) {
    const absl::StatusOr<Signature> derived = (*lane)->Describe(task.task);
    INFO(task.prompt);
    REQUIRE(derived.status().message() == "");
    CHECK(derived->Declaration() == ProgramSignature(task.program).Declaration());
    CHECK(*derived == ProgramSignature(task.program));
  }
}

TEST_CASE("No named or drawn task is weak, faint or unusable, and its reference stays within half a tolerance",
          "[rollout][generator]") {
  verifier::AuditOptions options;
  options.python = Python();
  std::vector<Task> tasks;
  for (const GeneratedTask& task : NamedAndDrawn(150)) tasks.push_back(task.task);
  for (size_t i = 0; i < tasks.size(); ++i) tasks[i].id += "#" + std::to_string(i);  // drawn ones may repeat
  const auto audits = verifier::AuditTasks(tasks, options, nullptr);
  if (absl::IsFailedPrecondition(audits.status())) SKIP(audits.status().message());
  REQUIRE(audits.status().message() == "");
  for (const verifier::TaskAudit& audit : *audits) {
    INFO(verifier::AuditToJson(audit));
    CHECK(audit.outcome == verifier::TaskAudit::Outcome::kSound);
    REQUIRE(audit.own_error_in_tolerances);
    CHECK(*audit.own_error_in_tolerances < 0.5);
  }
}

}  // namespace hone::rollout
