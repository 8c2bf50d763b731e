// The quickstart's demonstrations and baselines are CUDA: nvcc compiles them.

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "rollout/sampler/generator.h"
#include "tests/support/nvcc.h"

namespace hone::rollout {
namespace {

/// All in one translation unit, each in a namespace of its own: starting nvcc costs more than a kernel.
std::string Together(const std::vector<std::string>& sources) {
  std::string all = "#include <cuda_runtime.h>\n#include <math.h>\n";
  for (size_t i = 0; i < sources.size(); ++i) {
    absl::StrAppend(&all, "namespace kernel", i, " {\n",
                    absl::StrReplaceAll(sources[i], {{"extern \"C\" void launch(", "void launch("}}), "\n}\n");
  }
  return all;
}

void CheckCompiles(const std::vector<std::string>& sources) {
  const TempFolder folder = TempFolder::Create("nvcc_test").value();
  const std::string file = folder.path() + "/kernels.cu";
  REQUIRE(WriteFileAtomically(file, Together(sources)).ok());
  CHECK(NvccErrors(file) == "");
}

TEST_CASE("Drawn demonstrations compile with nvcc", "[rollout][generator][nvcc]") {
  if (!HasNvcc()) SKIP("nvcc is not on PATH");
  Generator generator(7);
  std::vector<std::string> sources;
  for (int i = 0; i < HONE_DRAWN; ++i) sources.push_back(generator.NextExample().demonstration.source);
  CheckCompiles(sources);
}

TEST_CASE("Demonstrations of every style and scalar baselines compile with nvcc", "[rollout][generator][nvcc]") {
  if (!HasNvcc()) SKIP("nvcc is not on PATH");
  std::vector<std::string> sources;
  for (const Split split : {Split::kTrain, Split::kHeldOut}) {
    for (const GeneratedTask& task : NamedTasks(split)) {
      REQUIRE(!task.task.scalar_baseline.empty());
      sources.push_back(task.task.scalar_baseline);
      for (const std::string& style : StylesOf(task.program.tail)) {
        KernelChoices choices;
        choices.style = style;
        choices.spellings.resize(task.program.lines.size());
        if (split == Split::kHeldOut) sources.push_back(KernelSource(task.program, choices));
      }
    }
  }
  CHECK(sources.size() > 100);
  CheckCompiles(sources);
}

}  // namespace
}  // namespace hone::rollout
