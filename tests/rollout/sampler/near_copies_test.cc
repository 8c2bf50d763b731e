#include "rollout/sampler/near_copies.h"

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "absl/strings/str_replace.h"
#include "base/task_suite.h"

namespace hone::rollout {
namespace {

constexpr char kSoftmax[] = R"(import torch
import torch.nn as nn

class Model(nn.Module):
    """
    Simple model.
    """
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Applies it."""
        return torch.softmax(x, dim=1)

batch_size = 4096
dim = 393216

def get_inputs():
    x = torch.rand(batch_size, dim)
    return [x]

def get_init_inputs():
    return []  # No special initialization inputs needed
)";

CopyKind KindOf(const std::string& a, const std::string& b, double threshold = 0.8) {
  return Nearest(PrintOf("a", a), {PrintOf("b", b)}, threshold).kind;
}

std::string Edited(std::initializer_list<std::pair<const absl::string_view, absl::string_view>> edits) {
  return absl::StrReplaceAll(kSoftmax, edits);
}

}  // namespace

TEST_CASE("A copy is exact whatever blanks end its lines", "[rollout][near_copies]") {
  CHECK(KindOf(kSoftmax, kSoftmax) == CopyKind::kExact);
  CHECK(KindOf(Edited({{"[x]\n", "[x]   \n"}}), kSoftmax) == CopyKind::kExact);
}

TEST_CASE("Renamed, resized and re-commented, a task stays the same task", "[rollout][near_copies]") {
  CHECK(KindOf(Edited({{"batch_size", "rows"}, {"dim)", "columns)"}, {"dim = 393216", "columns = 100"}, {"4096", "7"}}), kSoftmax) ==
        CopyKind::kNormalised);
  CHECK(KindOf(Edited({{"Simple model.", "Another text altogether"}, {"  # No special initialization inputs needed", ""}}), kSoftmax) ==
        CopyKind::kNormalised);
  CHECK(KindOf(Edited({{"x: torch.Tensor) -> torch.Tensor", "x)"}}), kSoftmax) == CopyKind::kNormalised);
}

TEST_CASE("The same computation in another frame is similar; another computation is not", "[rollout][near_copies]") {
  const std::string framed = R"(import torch
import torch.nn as nn

rows = 30
cols = 40


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, signal):
        return torch.softmax(signal, dim=0)


def get_inputs():
    return [torch.randn(rows, cols) * 2.0]


def get_init_inputs():
    return [cols]
)";
  CHECK(KindOf(framed, kSoftmax) == CopyKind::kSimilar);
  CHECK(KindOf(Edited({{"torch.softmax(x, dim=1)", "torch.relu(x)"}}), kSoftmax) == CopyKind::kNone);
  CHECK(KindOf(Edited({{"torch.softmax(x, dim=1)", "torch.cumsum(torch.softmax(x * 0.5, dim=1), dim=1) + x.amax()"}}), kSoftmax) ==
        CopyKind::kNone);
}

TEST_CASE("Copies come before what is only similar", "[rollout][near_copies]") {
  const std::string renamed = Edited({{"batch_size", "rows"}});
  const NearestTask nearest = Nearest(PrintOf("a", kSoftmax), {PrintOf("b", renamed), PrintOf("c", kSoftmax)}, 0.8);
  CHECK(nearest.index == 1);
  CHECK(nearest.kind == CopyKind::kExact);
}

TEST_CASE("No task of the suite is a copy of one of the other split", "[rollout][near_copies]") {
  const std::vector<Task> suite = LoadTasks(SuiteFolder()).value();
  std::vector<TaskPrint> held_out;
  for (const Task& task : suite) {
    if (task.split == Split::kHeldOut) held_out.push_back(PrintOf(task.id, task.reference));
  }
  REQUIRE(held_out.size() > 10);
  for (const Task& task : suite) {
    if (task.split != Split::kTrain) continue;
    INFO(task.id);
    CHECK(Nearest(PrintOf(task.id, task.reference), held_out, 0.8).kind < CopyKind::kNormalised);
  }
}

}  // namespace hone::rollout
