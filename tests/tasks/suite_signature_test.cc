// The built-in suite as candidates meet it.

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include "base/task_suite.h"
#include "verifier/lane/lane.h"

namespace hone {
namespace {

std::unique_ptr<verifier::Lane> MakeLane() {
  verifier::LaneOptions options;
  const char* python = std::getenv("HONE_PYTHON");
  options.python = python != nullptr && *python != '\0' ? python : "python3";
  auto lane = verifier::Lane::Create(options);
  if (!lane.ok()) SKIP(lane.status().message());
  return *std::move(lane);
}

}  // namespace

TEST_CASE("Every task of the suite has an entry point whose arguments need no made-up names", "[tasks]") {
  const std::unique_ptr<verifier::Lane> lane = MakeLane();
  const absl::StatusOr<std::vector<Task>> suite = LoadTasks(SuiteFolder());
  REQUIRE(suite.status().message() == "");
  for (const Task& task : *suite) {
    const absl::StatusOr<Signature> signature = lane->Describe(task);
    INFO(task.id);
    REQUIRE(signature.status().message() == "");
    INFO(signature->Declaration());
    CHECK(signature->scalars.empty() == (task.id != "grouped_norm"));  // the number of groups is no dimension
    std::set<std::string> names;
    for (const TensorArgument& tensor : signature->tensors) {
      CHECK(names.insert(tensor.spec.name).second);
      CHECK(tensor.spec.name.back() != '_');
    }
    for (const SizeArgument& size : signature->sizes) {
      CHECK(names.insert(size.name).second);
      CHECK(size.name.back() != '_');
    }
  }
}

TEST_CASE("The suite's timed shapes suit emulation: no tensor of more than two million elements", "[tasks]") {
  const std::unique_ptr<verifier::Lane> lane = MakeLane();
  const absl::StatusOr<std::vector<Task>> suite = LoadTasks(SuiteFolder());
  REQUIRE(suite.ok());
  for (const Task& task : *suite) {
    const absl::StatusOr<Signature> signature = lane->Describe(task);
    REQUIRE(signature.ok());
    int64_t largest = 0;
    for (const TensorArgument& tensor : signature->tensors) largest = std::max(largest, tensor.spec.Elements());
    INFO(task.id);
    CHECK(largest >= 1'000);
    CHECK(largest <= 2'000'000);
  }
}

}  // namespace hone
