// Python candidates from end to end on the CPU device: the scan, the build of extensions, the fork server, the rules.

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/subprocess.h"
#include "lane/bench.h"
#include "lane/torch_candidates.h"
#include "tests/support/test_programs.h"

namespace hone::verifier {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::RowScale;
using test::TorchCandidates;

Verdict Judge(const std::string& source) { return TorchCandidates::Get().Judge(RowScale(), source); }

Task LibraryAllowed() {
  Task task = RowScale();
  task.legality.allow_library_kernels = true;
  return task;
}

// A right answer to RowScale with a kernel of its own; tests change a part of it, and share its one extension.
constexpr char kModule[] = R"(
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = """
torch::Tensor row_scale(torch::Tensor x, torch::Tensor weight) {
  auto out = torch::empty_like(x);
  const int64_t rows = x.size(0), cols = x.size(1);
  const float* in = x.data_ptr<float>();
  const float* w = weight.data_ptr<float>();
  float* to = out.data_ptr<float>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) to[r * cols + c] = in[r * cols + c] * w[c];
  return out;
}
"""
#SETUP
class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))
        #INIT
    def forward(self, x):
        #FORWARD
)";

constexpr char kEager[] = "extension = load_inline('row_scale', SOURCE, functions=['row_scale'])";

std::string Module(const std::string& setup, const std::string& forward, const std::string& init = "pass") {
  return absl::StrReplaceAll(kModule, {{"#SETUP", setup}, {"#FORWARD", forward}, {"#INIT", init}});
}

TEST_CASE("A ModelNew with an inline extension is OK, and its own kernel covers all of it", "[verifier][torch]") {
  const Verdict verdict = Judge(Module(kEager, "return extension.row_scale(x, self.weight)"));
  INFO(verdict.message << "\n" << verdict.compiler_output);
  REQUIRE(verdict.status == VerdictStatus::kOk);
  CHECK(verdict.correct_rate == 1.0);
  CHECK(verdict.coverage == 1.0);
  REQUIRE(verdict.timings.size() == 1);
  CHECK(verdict.timings[0].candidate_ns > 0);
  CHECK(verdict.timings[0].speedup.samples >= 5);
  CHECK(verdict.rules.empty());
  CHECK_THAT(verdict.sandbox, ContainsSubstring("bubblewrap"));
}

TEST_CASE("An extension is compiled against tensors that are handles, and against torch's own where these do not do",
          "[verifier][torch]") {
  const auto judge = [](const char* condition) {
    const std::string module = Module(kEager, "return extension.row_scale(x, self.weight)");
    const std::string demand = absl::StrCat(condition, " HONE_INLINE\n#error another Tensor is wanted\n#endif\ntorch::Tensor row_scale(");
    return Judge(absl::StrReplaceAll(module, {{"torch::Tensor row_scale(", demand}}));
  };
  for (const char* condition : {"#ifndef", "#ifdef"}) {
    const Verdict verdict = judge(condition);
    INFO(condition << ": " << verdict.message << "\n" << verdict.compiler_output);
    CHECK(verdict.status == VerdictStatus::kOk);
  }
}

TEST_CASE("Numbers, lists and absent tensors reach an extension, several results come back, and the wrong kind is a TypeError",
          "[verifier][torch]") {
  constexpr char kSetup[] = R"(
MIXED = """
#ifndef HONE_INLINE
#error other headers
#endif
std::tuple<torch::Tensor, int64_t, std::vector<torch::Tensor>> mixed(const torch::Tensor& x, int count, double factor, bool flag,
                                                                    std::optional<torch::Tensor> other, std::vector<torch::Tensor> list) {
  TORCH_CHECK(x.dim() == 2 && !other, "x has ", x.dim(), " dimensions");
  auto counts = torch::full({count}, 3, x.options().dtype(torch::kInt64));
  auto out = torch::zeros({x.size(0), x.size(1)}, x.options());
  for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<float>()[i] = x.data_ptr<float>()[i] * list[0].data_ptr<float>()[i % x.size(1)];
  return {out, flag ? x.stride(0) : static_cast<int64_t>(factor), {x, counts, x.view({-1})}};
}
double sum(torch::Tensor x) {
  double total = 0;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "sum", [&] {
    for (int64_t i = 0; i < x.numel(); ++i) total += x.data_ptr<scalar_t>()[i];
  });
  return total;
}
"""
extension = load_inline("mixed", MIXED, functions=["mixed", "sum"])
def refused(kind, *arguments):
    try:
        extension.mixed(*arguments)
    except kind:
        return True
    return False
)";
  constexpr char kForward[] = R"(out, number, made = extension.mixed(x, 5, 2.5, False, None, [self.weight])
        assert number == 2 and extension.mixed(x, 5, 2, True, None, [self.weight])[1] == x.stride(0)
        assert made[0] is x and made[1].dtype is torch.int64 and made[1].tolist() == [3] * 5 and made[2].shape == (x.numel(),)
        assert refused(TypeError, x) and refused(TypeError, 1, 5, 2.5, False, None, []) and refused(TypeError, x, 5.5, 2.5, False, None, [])
        assert refused(TypeError, x, 1 << 40, 2.5, False, None, []) and refused(TypeError, x, 5, 2.5, False, None, x)
        assert refused(RuntimeError, x, 5, 2.5, False, x, []) and refused(RuntimeError, x.view(-1), 5, 2.5, False, None, [])
        assert extension.sum(torch.ones(4, dtype=torch.float64)) == 4.0
        return out)";
  const Verdict verdict = Judge(Module(kSetup, kForward));
  INFO(verdict.message << "\n" << verdict.compiler_output);
  CHECK(verdict.status == VerdictStatus::kOk);
}

TEST_CASE("An extension that is asked for in forward is built before the run", "[verifier][torch]") {
  const std::string lazy = "return load_inline('row_scale', SOURCE, functions=['row_scale']).row_scale(x, self.weight)";
  const Verdict verdict = Judge(Module("", lazy));
  INFO(verdict.message);
  CHECK(verdict.status == VerdictStatus::kOk);
}

TEST_CASE("An extension that does not build is COMPILE, though the candidate would have gone on without it",
          "[verifier][torch]") {
  const Verdict verdict = Judge(
      Module("try:\n    extension = load_inline('row_scale', 'torch::Tensor row_scale(torch::Tensor x) { return y; }', "
             "functions=['row_scale'])\nexcept Exception:\n    extension = None",
             "return extension.row_scale(x) if extension else x * self.weight"));
  REQUIRE(verdict.status == VerdictStatus::kCompile);
  CHECK_THAT(verdict.message, ContainsSubstring("'y' was not declared"));
  CHECK_THAT(verdict.compiler_output, ContainsSubstring("cpp_source:1"));
}

TEST_CASE("A module without any kernel of its own is FORBIDDEN before it runs", "[verifier][torch]") {
  const Verdict verdict = Judge(Module("", "return x * self.weight"));
  REQUIRE(verdict.status == VerdictStatus::kForbidden);
  CHECK(verdict.rules.at(0).rule == "no_custom_kernel");
}

TEST_CASE("What a module's text alone rejects is rejected unbuilt in the build's words, and nothing else is", "[verifier][torch]") {
  const Task task = RowScale();
  TorchCandidates& candidates = TorchCandidates::Get();
  const std::string source = GENERATE(Module("", "return x * self.weight"), std::string("class Other:\n    pass\n"),
                                      std::string("class ModelNew(:\n"), std::string(1, '\0'));
  const std::optional<BuildResult> rejected = candidates.RejectUnbuilt(task, source);
  const BuildResult built = candidates.Build(task, source);
  REQUIRE(rejected.has_value());
  CHECK(rejected->status == built.status);
  CHECK(rejected->status != VerdictStatus::kOk);
  CHECK(rejected->message == built.message);
  CHECK(rejected->toolchain == built.toolchain);
  CHECK(rejected->rules.size() == built.rules.size());
  CHECK_FALSE(candidates.RejectUnbuilt(task, Module(kEager, "return extension.row_scale(x, self.weight)")).has_value());
  CHECK_FALSE(candidates.RejectUnbuilt(LibraryAllowed(), Module("", "return x * self.weight")).has_value());
}

TEST_CASE("An extension that is built and never called is FORBIDDEN, with what PyTorch did", "[verifier][torch]") {
  const Verdict verdict = Judge(Module(kEager, "return x * self.weight"));
  REQUIRE(verdict.status == VerdictStatus::kForbidden);
  CHECK(verdict.rules.at(0).rule == "no_custom_kernel");
  CHECK_THAT(verdict.message, ContainsSubstring("aten::mul"));
  CHECK(verdict.coverage == 0.0);
}

TEST_CASE("PyTorch's arithmetic beside an own kernel is FORBIDDEN by name", "[verifier][torch]") {
  const Verdict verdict = Judge(Module(kEager, "return extension.row_scale(x + 0, self.weight)"));
  REQUIRE(verdict.status == VerdictStatus::kForbidden);
  CHECK(verdict.rules.at(0).rule == "library_compute");
  CHECK_THAT(verdict.message, ContainsSubstring("aten::add"));
}

TEST_CASE("PyTorch's arithmetic inside of an operator that the candidate registered is FORBIDDEN by name", "[verifier][torch]") {
  Task task = RowScale();
  task.legality.disabled_rules = {"py_monkey_patch"};
  const std::string setup = std::string(kEager) + R"(
@torch.library.custom_op("mine::scale", mutates_args=())
def scale(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * weight
)";
  const std::string forward = "extension.row_scale(x, self.weight)\n        return torch.ops.mine.scale(x, self.weight)";
  const Verdict verdict = TorchCandidates::Get().Judge(task, Module(setup, forward));
  INFO(verdict.message);
  REQUIRE(verdict.status == VerdictStatus::kForbidden);
  CHECK(verdict.rules.at(0).rule == "library_compute");
  CHECK_THAT(verdict.message, ContainsSubstring("aten::mul"));
}

TEST_CASE("Moving and allocating data is no arithmetic", "[verifier][torch]") {
  const Verdict verdict = Judge(
      Module(kEager,
             "return extension.row_scale(x.t().contiguous().t().contiguous(), self.weight.view(-1)).reshape(x.shape)"));
  INFO(verdict.message);
  CHECK(verdict.status == VerdictStatus::kOk);
}

TEST_CASE("Where a task allows library kernels, plain PyTorch is OK and its missing kernel is noted",
          "[verifier][torch]") {
  const Verdict verdict = TorchCandidates::Get().Judge(LibraryAllowed(), Module("", "return x * self.weight"));
  INFO(verdict.message);
  REQUIRE(verdict.status == VerdictStatus::kOk);
  CHECK(verdict.coverage == 0.0);
  REQUIRE(verdict.rules.size() == 1);
  CHECK_FALSE(verdict.rules[0].reject);
  REQUIRE(verdict.timings.size() == 1);
  CHECK(verdict.timings[0].speedup.median > 0);
}

TEST_CASE("Wrong values are INCORRECT with the first mismatch", "[verifier][torch]") {
  const Verdict verdict = TorchCandidates::Get().Judge(LibraryAllowed(), Module("", "return x * self.weight + 1"));
  REQUIRE(verdict.status == VerdictStatus::kIncorrect);
  REQUIRE(verdict.mismatch);
  CHECK(std::abs(verdict.mismatch->got - verdict.mismatch->want - 1) < 1e-4);
  CHECK(verdict.correct_rate == 0);
}

TEST_CASE("An output of another shape, type or kind is INCORRECT in words", "[verifier][torch]") {
  const auto judge = [](const std::string& forward) {
    return TorchCandidates::Get().Judge(LibraryAllowed(), Module("", forward));
  };
  const Verdict shape = judge("return (x * self.weight)[:1]");
  CHECK(shape.status == VerdictStatus::kIncorrect);
  CHECK_THAT(shape.message, ContainsSubstring("has shape [1, 7], not [3, 7]"));
  const Verdict dtype = judge("return (x * self.weight).double()");
  CHECK(dtype.status == VerdictStatus::kIncorrect);
  CHECK_THAT(dtype.message, ContainsSubstring("is float64, not float32"));
  const Verdict count = judge("return x, x");
  CHECK(count.status == VerdictStatus::kIncorrect);
  CHECK_THAT(count.message, ContainsSubstring("returns 2 tensors, not 1"));
}

TEST_CASE("What forward raises is RUNTIME with its line", "[verifier][torch]") {
  const Verdict verdict = TorchCandidates::Get().Judge(LibraryAllowed(), Module("", "raise ValueError('no way')"));
  REQUIRE(verdict.status == VerdictStatus::kRuntime);
  CHECK_THAT(verdict.message, ContainsSubstring("forward raised ValueError: no way (line 24)"));
}

TEST_CASE("Of a compiler's message that begins with a position, the reason at its end is told", "[verifier][torch]") {
  const Verdict verdict = TorchCandidates::Get().Judge(
      LibraryAllowed(), Module("", "raise RuntimeError('at 3:22:\\n    tl.store(out, tl.none(x))\\nAttributeError(\"no none\")')"));
  REQUIRE(verdict.status == VerdictStatus::kRuntime);
  CHECK_THAT(verdict.message, ContainsSubstring("at 3:22: AttributeError(\"no none\")"));
}

TEST_CASE("Parameters other than the reference's are RUNTIME and named", "[verifier][torch]") {
  const Verdict verdict = TorchCandidates::Get().Judge(
      LibraryAllowed(), Module("", "return x * self.weight", "self.bias = torch.nn.Parameter(torch.zeros(cols))"));
  REQUIRE(verdict.status == VerdictStatus::kRuntime);
  CHECK_THAT(verdict.message, ContainsSubstring("it adds bias"));
}

TEST_CASE("Sources that no scan saw are not built in the lane", "[verifier][torch]") {
  const Verdict verdict = Judge(Module(kEager,
                                       "return load_inline('late', SOURCE + '// ' + str(x.size(0)), "
                                       "functions=['row_scale']).row_scale(x, self.weight)"));
  REQUIRE(verdict.status == VerdictStatus::kForbidden);
  CHECK(verdict.rules.at(0).rule == "unresolved_extension");
}

TEST_CASE("A module that remembers its first output is CHEAT, or INCORRECT where nothing tells that from an error",
          "[verifier][torch]") {
  const Verdict verdict = TorchCandidates::Get().Judge(
      LibraryAllowed(),
      Module("",
             "self.seen = getattr(self, 'seen', None) if getattr(self, 'seen', None) is not None else x * self.weight\n"
             "        return self.seen"));
  INFO(verdict.message);
  CHECK((verdict.status == VerdictStatus::kCheat || verdict.status == VerdictStatus::kIncorrect));
}

TEST_CASE("A module cannot start processes, open sockets or write files", "[verifier][torch]") {
  for (const char* attempt : {"import os; os.fork()", "open('/tmp/x', 'w').write('x')", "torch.save(x, '/tmp/tensor')",
                              "import http.client; http.client.HTTPConnection('a').connect()"}) {
    const Verdict verdict =
        TorchCandidates::Get().Judge(LibraryAllowed(), Module("", std::string(attempt) + "; return x * self.weight"));
    INFO(attempt << ": " << verdict.message);
    CHECK((verdict.status == VerdictStatus::kRuntime || verdict.status == VerdictStatus::kForbidden));
  }
}

TEST_CASE("What a runner started and left ends with it", "[verifier][torch]") {
  if (TestPython().empty()) SKIP("HONE_PYTHON names no Python");
  SpawnOptions spawn;
  spawn.argv = {TestPython(), "-c", R"(
import os, sys, time
sys.path.insert(0, sys.argv[1])
import torch_runner
torch_runner.libc.prctl(36, 1, 0, 0, 0)
zygote = torch_runner.Zygote(os.pipe()[0], None, None)
kept = os.fork()
if kept == 0:
    time.sleep(60)
    os._exit(0)
zygote.runners[-1] = (kept, 1)
runner = os.fork()
if runner == 0:
    if os.fork() == 0:
        os.setsid()
        os.fork()
        time.sleep(60)
    os._exit(0)
os.waitpid(runner, 0)
assert len(torch_runner.children()) == 2, torch_runner.children()
zygote.end_what_is_left()
assert torch_runner.children() == [kept], torch_runner.children()
os.kill(kept, 9)
print("ended")
)",
                HONE_SOURCE_FOLDER "/verifier/runner"};
  const auto run = Run(spawn, absl::Seconds(60));
  REQUIRE(run.ok());
  INFO(run->output);
  CHECK(run->exit_code == 0);
  CHECK_THAT(run->output, ContainsSubstring("ended"));
}

TEST_CASE("A look into the runner is FORBIDDEN where it is written", "[verifier][torch]") {
  for (const char* attempt : {"import ctypes; ctypes.CDLL(None)", "import gc; gc.get_objects()",
                              "import sys; frame = sys._getframe", "exec('x')"}) {
    const Verdict verdict =
        Judge(Module(std::string(kEager) + "\n" + attempt, "return extension.row_scale(x, self.weight)"));
    INFO(attempt);
    CHECK(verdict.status == VerdictStatus::kForbidden);
  }
}

TEST_CASE("Several inputs and outputs, integers, booleans, numbers and strides reach a module as they are",
          "[verifier][torch]") {
  Task task;
  task.id = "many";
  task.legality.allow_library_kernels = true;
  task.reference = R"(
import torch
n = 64
class Model(torch.nn.Module):
    def __init__(self, shape, name=None, scale=2.0):
        super().__init__()
        self.scale = scale
        self.register_buffer("offset", torch.arange(shape[1], dtype=torch.int64))
    def forward(self, x, mask, factor, index):
        return torch.where(mask, x * factor * self.scale, 0), index + self.offset
def get_inputs():
    return [torch.randn(n, n).t(), torch.rand(n, n) > 0.5, 1.5, torch.randint(0, 9, (n,), dtype=torch.int64)]
def get_init_inputs():
    return [(n, n), None]
)";
  const std::string source = absl::StrReplaceAll(task.reference, {{"class Model(", "class ModelNew("}});
  const Verdict verdict = TorchCandidates::Get().Judge(task, source);
  INFO(verdict.message);
  CHECK(verdict.status == VerdictStatus::kOk);
  const Verdict strides = TorchCandidates::Get().Judge(
      task,
      absl::StrReplaceAll(source, {{"return torch.where", "assert x.stride() == (1, n)\n        return torch.where"}}));
  INFO(strides.message);
  CHECK(strides.status == VerdictStatus::kOk);
}

TEST_CASE("A Triton kernel runs in the interpreter where there is no GPU", "[verifier][torch]") {
  const Verdict verdict = TorchCandidates::Get().Judge(RowScale(), R"(
import torch
import triton
import triton.language as tl

@triton.jit
def scale(x, weight, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    tl.store(out + row * cols + at, tl.load(x + row * cols + at, inside) * tl.load(weight + at, inside), inside)

class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))
    def forward(self, x):
        out = torch.empty_like(x)
        scale[(x.shape[0],)](x, self.weight, out, x.shape[1], BLOCK=512)
        return out
)",
                                                       Format::kTriton);
  if (verdict.message.find("No module named 'triton'") != std::string::npos) SKIP("no triton beside this torch");
  INFO(verdict.message);
  CHECK(verdict.status == VerdictStatus::kOk);
  CHECK(verdict.coverage == 1.0);
}

}  // namespace
}  // namespace hone::verifier
