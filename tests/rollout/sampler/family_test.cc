#include "rollout/sampler/family.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/support/reference_text.h"

namespace hone::rollout {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr char kScaled[] = R"(=== task
# ---
# family: elementwise
# ---
import torch
import torch.nn as nn

n = 64


class Model(nn.Module):
    def forward(self, {{x:x~signal}}):
        t = {{x:x~signal}} * {{k:2.0~3.0~4.0}}
{{lines}}
        return t


def get_inputs():
    return [torch.randn(n)]


def get_init_inputs():
    return []
=== kernel flat 1
{{function}}
__global__ void k(const float* x, float* out, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) out[i] = {{f:x[i] * {{k:2.0f~3.0f~4.0f}}}};
}
)";

std::string ErrorOf(const std::string& text) {
  return std::string(Family::Parse(text, "scaled.txt").status().message());
}

}  // namespace

TEST_CASE("A key takes the same alternative in the task and in the kernel", "[rollout][family]") {
  const Family family = Family::Parse(kScaled, "scaled.txt").value();
  SplitMix random(3);
  std::set<std::string> seen;
  for (int i = 0; i < 60; ++i) {
    const FamilyExample example = family.Draw(random).value();
    for (const char* factor : {"2.0", "3.0", "4.0"}) {
      const bool in_task = example.task.reference.find(absl::StrCat(" * ", factor)) != std::string::npos;
      const bool in_source = example.source.find(absl::StrCat("x[i] * ", factor, "f")) != std::string::npos;
      CHECK(in_task == in_source);
      if (in_task) seen.insert(factor);
    }
    CHECK_THAT(example.source, !ContainsSubstring("{{") && !ContainsSubstring("}}"));
    CHECK_THAT(example.task.reference, !ContainsSubstring("{{") && !ContainsSubstring("~"));
  }
  CHECK(seen.size() == 3);
}

TEST_CASE("Lines appear in the task and as a device function, or in neither", "[rollout][family]") {
  const Family family = Family::Parse(kScaled, "scaled.txt").value();
  SplitMix random(5);
  int with = 0, without = 0;
  for (int i = 0; i < 60; ++i) {
    const FamilyExample example = family.Draw(random).value();
    const bool function = example.source.find("__device__ float f(float t)") != std::string::npos;
    const bool called = example.source.find("= f(x[i]") != std::string::npos;
    CHECK(function == called);
    const std::string after = example.task.reference.substr(example.task.reference.find(" * "));
    CHECK(function == (after.find("        t = ") != std::string::npos));
    ++(function ? with : without);
  }
  CHECK(with > 0);
  CHECK(without > 0);
}

TEST_CASE("Equal states draw equal examples, and unlike tasks have unlike ids", "[rollout][family]") {
  const Family family = Family::Parse(kScaled, "folder/scaled.txt").value();
  SplitMix one(7), two(7);
  for (int i = 0; i < 20; ++i) {
    const FamilyExample a = family.Draw(one).value(), b = family.Draw(two).value();
    CHECK(a.source == b.source);
    CHECK(a.task == b.task);
    CHECK(a.task.id.rfind("scaled-", 0) == 0);
  }
  const FamilyExample a = family.Draw(one).value();
  FamilyExample b = family.Draw(one).value();
  while (b.task.reference == a.task.reference) b = family.Draw(one).value();
  CHECK(a.task.id != b.task.id);
}

TEST_CASE("A family's file that is wrong is refused by name and reason", "[rollout][family]") {
  CHECK_THAT(ErrorOf("import torch\n"), ContainsSubstring("scaled.txt: no task, or no kernel"));
  CHECK_THAT(ErrorOf("=== task\nx\n=== kernel flat\ny\n"), ContainsSubstring("=== kernel STYLE WEIGHT"));
  CHECK_THAT(ErrorOf("=== task\n{{a:1~2}}\n=== kernel flat 1\n{{a:1~2~3}}\n"),
             ContainsSubstring("{{a:...}} has 2 alternatives in one place and 3 in another"));
  CHECK_THAT(ErrorOf("=== task\nx }}\n=== kernel flat 1\ny\n"), ContainsSubstring("}} without {{"));
  CHECK_THAT(ErrorOf("=== task\nx {{f:1\n=== kernel flat 1\ny\n"), ContainsSubstring("{{ without }}"));
  CHECK_THAT(ErrorOf("=== task\nx {{word}}\n=== kernel flat 1\ny\n"), ContainsSubstring("{{word}} has no alternatives"));
}

TEST_CASE("Every family of the recipe draws tasks that load and kernels that declare the entry point", "[rollout][family]") {
  const std::vector<Family> families = LoadFamilies(HONE_SOURCE_DIR "/examples/qwen2.5-coder-1.5b/families").value();
  CHECK(families.size() >= 30);
  for (const Family& family : families) {
    SplitMix random(11);
    std::set<std::string> ids;
    for (int i = 0; i < 30; ++i) {
      const absl::StatusOr<FamilyExample> example = family.Draw(random);
      INFO(family.name());
      REQUIRE(example.status().message() == "");
      ids.insert(example->task.id);
      CHECK(example->task.split == Split::kTrain);
      CHECK_FALSE(example->task.variants.empty());
      CHECK(TensorsMadeNowhere(example->task.reference) == std::vector<std::string>());
      CHECK_THAT(example->source, ContainsSubstring("extern \"C\" void launch(") && ContainsSubstring("<<<") &&
                                      ContainsSubstring("cudaStream_t stream)"));
    }
    CHECK(ids.size() >= 4);
  }
}

TEST_CASE("A size goes by one of its names in task and kernel alike", "[rollout][family]") {
  const std::string named = absl::StrReplaceAll(kScaled, {{"=== kernel", "=== names\nn: count items\n=== kernel"}});
  const Family family = Family::Parse(named, "scaled.txt").value();
  SplitMix random(11);
  std::set<std::string> seen;
  for (int i = 0; i < 60; ++i) {
    const FamilyExample example = family.Draw(random).value();
    for (const std::string name : {"n", "count", "items"}) {
      const bool in_task = example.task.reference.find(absl::StrCat("torch.randn(", name, ")")) != std::string::npos;
      CHECK(in_task == (example.source.find(absl::StrCat("float* out, int ", name, ")")) != std::string::npos));
      CHECK(in_task == (example.source.find(absl::StrCat("if (i < ", name, ")")) != std::string::npos));
      if (in_task) seen.insert(name);
    }
    CHECK_THAT(example.task.reference, ContainsSubstring("torch.nn as nn"));  // within words nothing changes
  }
  CHECK(seen.size() == 3);
}

TEST_CASE("A name that something else has already is refused", "[rollout][family]") {
  const auto with = [](const std::string& names) {
    return ErrorOf(absl::StrReplaceAll(kScaled, {{"=== kernel", absl::StrCat("=== names\n", names, "\n=== kernel")}}));
  };
  CHECK_THAT(with("n: i"), ContainsSubstring("names: i occurs already"));
  CHECK_THAT(with("n: count\nm: count"), ContainsSubstring("names: count occurs already"));
  CHECK_THAT(with("n:"), ContainsSubstring("gives no other name"));
}

}  // namespace hone::rollout
