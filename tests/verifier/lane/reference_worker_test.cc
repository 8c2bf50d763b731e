// What the reference worker derives from modules, and what it says about bad ones.

#include "tests/support/shared_data.h"
#include "verifier/lane/reference_worker.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <set>

#include "base/file.h"
#include "base/task_suite.h"

namespace hone::verifier {
namespace {

using Catch::Matchers::ContainsSubstring;

/// One worker for all cases: importing torch takes seconds.
ReferenceWorker& Worker() {
  static const std::unique_ptr<ReferenceWorker> worker = [] {
    ReferenceWorkerOptions options;
    const char* python = std::getenv("HONE_PYTHON");
    options.python = python != nullptr ? python : "python3";
    options.script = ResourcePath("lane/reference_worker.py");
    options.timeout = absl::Seconds(60);
    return ReferenceWorker::Create(options).value();
  }();
  return *worker;
}

Task MakeTask(const std::string& reference, std::vector<Sizes> variants = {}) {
  Task task;
  task.id = "t";
  task.reference = "import torch\n" + reference;
  task.variants = std::move(variants);
  return task;
}

std::string Declaration(const Task& task) {
  const absl::StatusOr<Signature> signature = Worker().Describe(task);
  INFO(signature.status());
  REQUIRE(signature.ok());
  return signature->Declaration();
}

std::string Error(const std::string& reference) {
  const absl::StatusOr<Signature> signature = Worker().Describe(MakeTask(reference));
  CHECK(absl::IsInvalidArgument(signature.status()));
  return std::string(signature.status().message());
}

constexpr char kRows[] = R"(
rows = 12
cols = 30
class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum(dim=1)
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return []
)";

TEST_CASE("Sizes are named after the module's constants", "[verifier][lane]") {
  CHECK(Declaration(MakeTask(kRows)) ==
        "extern \"C\" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream)");
}

TEST_CASE("Constants of equal value are told apart, by variants or by changing one at a time", "[verifier][lane]") {
  const std::string square = R"(
height = 16
width = 16
class Model(torch.nn.Module):
    def forward(self, x):
        return x.transpose(0, 1).contiguous()
def get_inputs():
    return [torch.randn(height, width)]
)";
  const std::string expected =
      "extern \"C\" void launch(const float* x, float* out, int height, int width, cudaStream_t stream)";
  CHECK(Declaration(MakeTask(square)) == expected);
  CHECK(Declaration(MakeTask(square, {{{"height", 3}, {"width", 5}}})) == expected);
  const Signature signature = Worker().Describe(MakeTask(square)).value();
  CHECK(signature.tensors[1].dimensions == std::vector<std::string>{"width", "height"});
}

TEST_CASE("Parameters, buffers, scalars and derived sizes follow in their order", "[verifier][lane]") {
  const Task task = MakeTask(R"(
batch = 4
channels = 6
length = 33
class Model(torch.nn.Module):
    def __init__(self, channels, kernel, stride, eps):
        super().__init__()
        self.conv = torch.nn.Conv1d(channels, 8, kernel, stride=stride)
        self.eps = eps
    def forward(self, x, alpha):
        return self.conv(x) * alpha + self.eps
def get_inputs():
    return [torch.randn(batch, channels, length), 0.5]
def get_init_inputs():
    return [channels, 5, 2, 1e-3]
)");
  // The kernel's 5 and the 8 filters never change: literals. 15 = (33 - 5) / 2 + 1 is a size of its own.
  CHECK(Declaration(task) ==
        "extern \"C\" void launch(const float* x, const float* conv_weight, const float* conv_bias, float* out, int batch, "
        "int channels, int length, int out_dim2, float alpha, int64_t kernel, int64_t stride, float eps, "
        "cudaStream_t stream)");
}

TEST_CASE("Several outputs, integers and booleans keep their types", "[verifier][lane]") {
  CHECK(Declaration(MakeTask(R"(
n = 10
class Model(torch.nn.Module):
    def forward(self, x, mask):
        values, index = torch.where(mask, x, 0).max(dim=0)
        return values, index, x > 0
def get_inputs():
    return [torch.randint(0, 9, (n, 3), dtype=torch.int32), torch.rand(n, 3) > 0.5]
)")) ==
        "extern \"C\" void launch(const int* x, const bool* mask, int* out0, int64_t* out1, bool* out2, int n, "
        "cudaStream_t stream)");
}

TEST_CASE("Sizes whose tensors reach 2^31 elements are wide, without the memory to hold one", "[verifier][lane]") {
  CHECK(Declaration(MakeTask(R"(
n = 3_000_000_000
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.rand(n)]
)")) == "extern \"C\" void launch(const float* x, float* out, int64_t n, cudaStream_t stream)");
}

TEST_CASE("A module that cannot run without data is traced with data", "[verifier][lane]") {
  CHECK(Declaration(MakeTask(R"(
n = 10
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum().item() > -1e9 else x
def get_inputs():
    return [torch.rand(n)]
)")) == "extern \"C\" void launch(const float* x, float* out, int n, cudaStream_t stream)");
}

TEST_CASE("Names that C++ keeps for itself are changed", "[verifier][lane]") {
  CHECK(Declaration(MakeTask(R"(
default = 10
class Model(torch.nn.Module):
    def forward(self, float):
        return float * 2
def get_inputs():
    return [torch.rand(default)]
)")) == "extern \"C\" void launch(const float* float_, float* out, int default_, cudaStream_t stream)");
}

TEST_CASE("A variant's sizes and scalars come back by plan", "[verifier][lane]") {
  const Task task = MakeTask(R"(
rows = 4
cols = 8
class Model(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
    def forward(self, x):
        return x * self.scale
def get_inputs():
    return [torch.randn(rows, cols)]
def get_init_inputs():
    return [cols ** -0.5]
)");
  const Signature signature = Worker().Describe(task).value();
  REQUIRE(signature.scalars.size() == 1);
  const CallPlan plan = Worker().Plan(task, signature, {{"rows", 3}, {"cols", 16}}).value();
  CHECK(plan.tensors[0].shape == std::vector<int64_t>{3, 16});
  CHECK(plan.scalars == std::vector<double>{0.25});
}

TEST_CASE("A bad module is the task's fault and the message has its line", "[verifier][lane]") {
  CHECK_THAT(Error("x = 1\ndef broken(:\n"), ContainsSubstring("line 3"));
  CHECK_THAT(Error("x = 1\nraise ValueError('no')\n"), ContainsSubstring("line 3") && ContainsSubstring("ValueError: no"));
  CHECK_THAT(Error("class Model: pass\n"), ContainsSubstring("lacks `get_inputs`"));
  CHECK_THAT(Error("def get_inputs(): return []\n"), ContainsSubstring("lacks `Model`"));
  const std::string model = "class Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n";
  CHECK_THAT(Error(model + "def get_inputs():\n    return ['text']\n"), ContainsSubstring("str, not a tensor"));
  CHECK_THAT(Error(model + "def get_inputs():\n    return torch.rand(3)\n"), ContainsSubstring("not a list"));
  CHECK_THAT(Error(model + "def get_inputs():\n    return [torch.rand(3, dtype=torch.complex64)]\n"),
             ContainsSubstring("complex64"));
  CHECK_THAT(Error("class Model(torch.nn.Module):\n    def forward(self, x):\n        return 'done'\n"
                   "def get_inputs():\n    return [torch.rand(3)]\n"),
             ContainsSubstring("forward returns str"));
  CHECK_THAT(Error("class Model(torch.nn.Module):\n    def forward(self, x):\n        return x @ torch.rand(7)\n"
                   "def get_inputs():\n    return [torch.rand(3)]\n"),
             ContainsSubstring("line 4") && ContainsSubstring("Model.forward raised"));
}

TEST_CASE("A variant of a constant that the module does not have is the task's fault", "[verifier][lane]") {
  const auto signature = Worker().Describe(MakeTask(kRows, {{{"depth", 3}}}));
  CHECK(absl::IsInvalidArgument(signature.status()));
  CHECK_THAT(std::string(signature.status().message()), ContainsSubstring("`depth`"));
}

TEST_CASE("Every size of KernelBench's single and fused operators is named or constant", "[verifier][lane]") {
  const std::string path = SharedData("kernelbench.jsonl");
  if (path.empty()) SKIP("needs KernelBench's tasks: set HONE_SHARED to the folder that holds data/");
  const std::vector<Task> tasks = LoadTasks(path).value();
  int described = 0;
  for (const Task& task : tasks) {
    if (task.level > 2) continue;
    const absl::StatusOr<Signature> signature = Worker().Describe(task);
    INFO(task.id << ": " << signature.status());
    REQUIRE(signature.ok());
    ++described;
    std::set<std::string> names;
    for (const SizeArgument& size : signature->sizes) CHECK(names.insert(size.name).second);
    for (const ScalarArgument& scalar : signature->scalars) CHECK(names.insert(scalar.name).second);
    for (const TensorArgument& tensor : signature->tensors) {
      CHECK(names.insert(tensor.spec.name).second);
      REQUIRE(tensor.dimensions.size() == tensor.spec.shape.size());
      for (size_t axis = 0; axis < tensor.dimensions.size(); ++axis) {
        const std::string& name = tensor.dimensions[axis];
        const auto size = std::find_if(signature->sizes.begin(), signature->sizes.end(),
                                       [&](const SizeArgument& candidate) { return candidate.name == name; });
        if (size == signature->sizes.end()) {
          CHECK(name == std::to_string(tensor.spec.shape[axis]));
        } else {
          CHECK(size->value == tensor.spec.shape[axis]);
        }
      }
    }
  }
  CHECK(described == 200);
}

TEST_CASE("A worker that is killed costs one call", "[verifier][lane]") {
  const int64_t generation = Worker().generation();
  REQUIRE(Worker().Describe(MakeTask(kRows)).ok());
  REQUIRE(kill(Worker().pid(), SIGKILL) == 0);
  const auto lost = Worker().Describe(MakeTask(kRows));
  CHECK((lost.ok() || absl::IsUnavailable(lost.status())));
  CHECK(Worker().Describe(MakeTask(kRows)).ok());
  CHECK(Worker().generation() > generation);
}

TEST_CASE("A module that ends its process costs its task a retry and nobody else", "[verifier][lane]") {
  CHECK(absl::IsUnavailable(Worker().Describe(MakeTask("import os\nos._exit(3)\n")).status()));
  CHECK(Worker().Describe(MakeTask(kRows)).ok());
}

}  // namespace
}  // namespace hone::verifier
