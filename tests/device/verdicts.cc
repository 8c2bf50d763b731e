#include "device/verdicts.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/protocol.h"

namespace hone::device_tests {
namespace {

// ---- Tasks. ----

Task Affine() {
  Task task;
  task.id = "affine";
  task.reference = R"(
import torch
rows = 256
cols = 512
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1
def get_inputs():
    return [torch.rand(rows, cols)]
def get_init_inputs():
    return []
)";
  task.variants = {{{"rows", 33}, {"cols", 65}}};
  task.timing_gpu = {{"rows", 4096}, {"cols", 4096}};
  return task;
}

Task ColumnSum() {
  Task task;
  task.id = "column_sum";
  task.reference = R"(
import torch
rows = 1024
cols = 64
class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum(0)
def get_inputs():
    return [torch.rand(rows, cols)]
def get_init_inputs():
    return []
)";
  task.variants = {{{"rows", 512}, {"cols", 64}}};
  return task;
}

// ---- Native candidates. ----

/// A kernel over the elements of `affine`, with `i`, `r`, `c` and `n` in scope.
std::string Elementwise(const std::string& body) {
  return absl::StrCat(R"(
__device__ float f(float v) { return v * 2.0f + 1.0f; }
__global__ void affine(const float* x, float* out, int rows, int cols) {
  const int n = rows * cols, i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int r = i / cols, c = i % cols;
  )", body, R"(
}
extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  affine<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, out, rows, cols);
}
)");
}

Case Native(const std::string& name, const std::string& what, const std::string& source, VerdictStatus expect,
            const std::string& says) {
  Case one;
  one.name = name;
  one.what = what;
  one.task = Affine();
  one.source = source;
  one.expect = expect;
  one.says = says;
  return one;
}

Case Wrong(const std::string& name, const std::string& what, const std::string& body, const std::string& says) {
  return Native(name, what, Elementwise(body), VerdictStatus::kIncorrect, says);
}

Case OnDevice(Case one) {
  one.on_cpu = false;
  return one;
}

Case Sanitized(Case one) {
  one.sanitize = true;
  return one;
}

constexpr char kRacingSum[] = R"(
__global__ void clear(float* out, int cols) { if (threadIdx.x < cols) out[threadIdx.x] = 0; }
__global__ void add(const float* x, float* out, int rows, int cols) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < rows * cols) out[i % cols] += x[i];
}
extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  clear<<<1, 1024, 0, stream>>>(out, cols);
  add<<<(rows * cols + 255) / 256, 256, 0, stream>>>(x, out, rows, cols);
}
)";

constexpr char kRacingShared[] = R"(
__global__ void add(const float* x, float* out, int rows, int cols) {
  __shared__ float part[256];
  float sum = 0;
  for (int r = threadIdx.x; r < rows; r += 256) sum += x[r * cols + blockIdx.x];
  part[threadIdx.x] = sum;
  for (int s = 128; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  add<<<cols, 256, 0, stream>>>(x, out, rows, cols);
}
)";

constexpr char kTooManyThreads[] = R"(
__global__ void affine(const float* x, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * 2.0f + 1.0f;
}
extern "C" void launch(const float* x, float* out, int rows, int cols, cudaStream_t stream) {
  affine<<<(rows * cols + 2047) / 2048, 2048, 0, stream>>>(x, out, rows * cols);
}
)";

void AddNative(std::vector<Case>& cases) {
  cases.push_back(Native("right.cu", "nothing", Elementwise("out[i] = f(x[i]);"), VerdictStatus::kOk, ""));
  cases.back().profile = true;
  cases.push_back(Wrong("zero.cu", "writes zero everywhere", "out[i] = 0;", "all zero"));
  cases.push_back(Wrong("transposed.cu", "writes columns as rows", "out[c * rows + r] = f(x[i]);", "transposed"));
  cases.push_back(Wrong("next_row.cu", "reads the row behind", "out[i] = f(x[min(r + 1, rows - 1) * cols + c]);", "off by one row"));
  cases.push_back(Wrong("next_element.cu", "reads the element behind", "out[i] = f(x[min(i + 1, n - 1)]);", "off by one element"));
  cases.push_back(Wrong("no_tail.cu", "whole blocks only", "if (i < n / 256 * 256) out[i] = f(x[i]);",
                        "the last 97 of 2145 elements are not written"));
  cases.push_back(Wrong("bad_tail.cu", "zero behind the last whole block", "out[i] = i < n / 256 * 256 ? f(x[i]) : 0;",
                        "only the last 97 of 2145 elements are wrong"));
  cases.push_back(Wrong("nan.cu", "one block divides by zero", "out[i] = blockIdx.x == 1 ? (x[i] - x[i]) / (r - r) : f(x[i]);",
                        "256 of 2145 elements are NaN"));
  cases.push_back(Wrong("twice.cu", "a factor too many", "out[i] = 2.0f * f(x[i]);", "everything is 2 times the right value"));
  Case race = Native("race.cu", "adds without atomics", kRacingSum, VerdictStatus::kIncorrect, "race: the result differs");
  race.task = ColumnSum();
  cases.push_back(OnDevice(race));
  Case shared = Native("race_shared.cu", "no barrier between the steps of a reduction", kRacingShared, VerdictStatus::kIncorrect, "");
  shared.task = ColumnSum();
  cases.push_back(Sanitized(OnDevice(shared)));
  cases.push_back(Sanitized(Native("past_the_end.cu", "writes past the end of its output",
                                   Elementwise("out[i + (i == n - 1) * 5] = f(x[i]); if (i == n - 1) out[i] = f(x[i]);"),
                                   VerdictStatus::kRuntime, "out-of-bounds")));
  cases.back().says_on_device = "IllegalAddress";
  cases.push_back(Sanitized(OnDevice(Native("null.cu", "writes to address 0", Elementwise("*(volatile float*)nullptr = f(x[i]);"),
                                            VerdictStatus::kRuntime, "IllegalAddress"))));
  cases.push_back(OnDevice(Native("misaligned.cu", "reads four floats where rows begin anywhere",
                                  Elementwise("const float4 v = *reinterpret_cast<const float4*>(x + 1); out[i] = f(v.x + v.y + v.z + v.w);"),
                                  VerdictStatus::kRuntime, "MisalignedAddress")));
  cases.push_back(OnDevice(Native("trap.cu", "stops in an assertion", Elementwise("if (i == 7) __trap(); out[i] = f(x[i]);"),
                                  VerdictStatus::kRuntime, "")));
  cases.push_back(Native("too_many_threads.cu", "2,048 threads in a block", kTooManyThreads, VerdictStatus::kRuntime, ""));
  cases.push_back(OnDevice(Native("endless.cu", "never ends", Elementwise("while (x[0] < 2) __nanosleep(100); out[i] = f(x[i]);"),
                                  VerdictStatus::kTimeout, "")));
  cases.push_back(Native("typo.cu", "a name that nobody declared", Elementwise("out[i] = f(y[i]);"), VerdictStatus::kCompile, "y"));
}

// ---- Triton candidates. ----

std::string TritonModule(const std::string& kernel, const std::string& forward) {
  return absl::StrCat(R"(
import torch
import triton
import triton.language as tl

@triton.jit
def affine(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
)", kernel, R"(
def run(x):
    out = torch.empty_like(x)
    affine[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out

calls = {}
kept = {}

class ModelNew(torch.nn.Module):
    def forward(self, x):
)", forward);
}

constexpr char kTritonRight[] = "    tl.store(out + i, tl.load(x + i, mask=i < n) * 2.0 + 1.0, mask=i < n)\n";

Case Triton(const std::string& name, const std::string& what, const std::string& kernel, const std::string& forward,
            VerdictStatus expect, const std::string& says) {
  Case one = Native(name, what, TritonModule(kernel, forward), expect, says);
  one.format = Format::kTriton;
  one.on_cpu = false;
  return one;
}

void AddTriton(std::vector<Case>& cases) {
  const std::string call = "        return run(x)\n";
  cases.push_back(Triton("right.py", "nothing", kTritonRight, call, VerdictStatus::kOk, ""));
  cases.push_back(Triton("wrong.py", "forgets the addition", "    tl.store(out + i, tl.load(x + i, mask=i < n) * 2.0, mask=i < n)\n",
                         call, VerdictStatus::kIncorrect, "wrong"));
  cases.push_back(Triton("zero.py", "writes zero everywhere", "    tl.store(out + i, tl.load(x + i, mask=i < n) * 0.0, mask=i < n)\n",
                         call, VerdictStatus::kIncorrect, "all zero"));
  cases.push_back(Triton("crash.py", "writes far behind its output",
                         "    far = i.to(tl.int64) + 1099511627776\n    tl.store(out + far, tl.load(x + i, mask=i < n), mask=i < n)\n",
                         call, VerdictStatus::kRuntime, "illegal memory access"));
  cases.push_back(Triton("unknown_name.py", "calls what Triton does not have",
                         "    tl.store(out + i, tl.no_such_function(tl.load(x + i, mask=i < n)), mask=i < n)\n", call,
                         VerdictStatus::kRuntime, "no_such_function"));
  cases.push_back(Triton("kept_answer.py", "returns an earlier answer once its shape has been checked", kTritonRight,
                         "        calls[x.shape] = calls.get(x.shape, 0) + 1\n"
                         "        if calls[x.shape] <= 4:\n            kept[x.shape] = run(x)\n        return kept[x.shape]\n",
                         VerdictStatus::kCheat, ""));
  cases.push_back(Triton("decoy.py", "launches a kernel and returns what PyTorch computes", kTritonRight,
                         "        run(x)\n        return x * 2 + 1\n", VerdictStatus::kForbidden, "library_compute"));
  cases.push_back(Triton("endless.py", "never ends",
                         "    s = tl.load(x, volatile=True)\n    while s < 2.0:\n        s = tl.load(x, volatile=True)\n"
                         "    tl.store(out + i, tl.load(x + i, mask=i < n) + s, mask=i < n)\n",
                         call, VerdictStatus::kTimeout, ""));
}

// ---- Candidates of PyTorch extensions. ----

constexpr char kExtension[] = R"(
import torch
from torch.utils.cpp_extension import load_inline
CUDA = """
__global__ void affine(const float* x, float* out, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * 2.f + 1.f;
}
torch::Tensor run(torch::Tensor x) {
  auto out = torch::empty_like(x);
  long n = x.numel();
  affine<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""
extension = load_inline(name="affine", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=CUDA, functions=["run"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
)";

// The form that nine of eleven published candidates had.
constexpr char kSilentFallback[] = R"(
import torch
from torch.utils.cpp_extension import load_inline
try:
    extension = load_inline(name="affine", cpp_sources="", cuda_sources="""
torch::Tensor run(torch::Tensor x) { return x.mul(2).add(1); }
""", functions=["run"])
except Exception:
    extension = None
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x) if extension is not None else x * 2 + 1
)";

void AddTorch(std::vector<Case>& cases) {
  const auto add = [&](const char* name, const char* what, const char* source, VerdictStatus expect, const char* says) {
    cases.push_back(OnDevice(Native(name, what, source, expect, says)));
    cases.back().format = Format::kTorch;
  };
  add("extension.py", "nothing", kExtension, VerdictStatus::kOk, "");
  add("silent_fallback.py", "its extension does not build, and `except` runs PyTorch", kSilentFallback, VerdictStatus::kCompile, "run");
}

}  // namespace

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  AddNative(cases);
  AddTriton(cases);
  AddTorch(cases);
  return cases;
}

VerifyRequest RequestOf(const Case& one, Backend backend) {
  VerifyRequest request;
  request.task = one.task;
  request.candidate = {one.format, backend, one.source};
  request.protocol = ProtocolById("hone-v1").value();
  if (one.expect == VerdictStatus::kTimeout) request.protocol.run_timeout_ms = one.format == Format::kNative ? 2'500 : 5'000;
  request.protocol.sanitize = one.sanitize;
  request.protocol.profile = one.profile;
  request.use_cache = false;
  return request;
}

std::string SaidBy(const Verdict& verdict) {
  if (!verdict.mismatch || absl::StrContains(verdict.message, verdict.mismatch->diagnosis)) return verdict.message;
  return absl::StrCat(verdict.message, "; ", verdict.mismatch->diagnosis);
}

bool Holds(const Case& one, const Verdict& verdict, Backend backend) {
  const bool device = backend != Backend::kCpu && !one.says_on_device.empty();
  return verdict.status == one.expect && absl::StrContains(SaidBy(verdict), device ? one.says_on_device : one.says);
}

}  // namespace hone::device_tests
