// How much slower is a kernel under the CPU backend than the loop it stands for? And how long does the build stage take?
//
// usage: emulator_bench [--record]
// Prints medians of interleaved pairs; --record puts them into bench/results.json.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/results.h"
#include "bench/emulator/plain_loops.h"
#include "verifier/build/cpu_builder.h"
#include "verifier/device/cpu/runtime.h"
#include "verifier/runner/abi.h"

namespace hone::bench {
namespace {

using verifier::Builder;

struct Case {
  std::string id;
  std::string source;                // x, y, out, a, b, c
  int a, b, c;
  std::function<void(const float*, const float*, float*, const Case&)> plain;
};

std::string Launch(const std::string& body) {
  return "extern \"C\" void launch(const float* x, const float* y, float* out, int a, int b, int c, cudaStream_t stream) {\n" +
         body + "\n}\n";
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  cases.push_back({"saxpy",
                   "__global__ void k(const float* x, const float* y, float* out, int n, float s) {\n"
                   "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                   "  if (i < n) out[i] = s * x[i] + y[i];\n}\n" +
                       Launch("  k<<<(a + 255) / 256, 256, 0, stream>>>(x, y, out, a, 1.5f);"),
                   60001, 0, 0, [](const float* x, const float* y, float* out, const Case& c) { Saxpy(x, y, out, c.a, 1.5f); }});
  cases.push_back({"row_sum", R"(
__global__ void k(const float* x, float* out, int cols) {
  __shared__ float s[256];
  float v = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) v += x[blockIdx.x * cols + c];
  s[threadIdx.x] = v;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
)" + Launch("  k<<<a, 256, 0, stream>>>(x, out, b);"),
                   32, 4096, 0, [](const float* x, const float*, float* out, const Case& c) { RowSum(x, out, c.a, c.b); }});
  cases.push_back({"row_sum_warp", R"(
__device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  return v;
}
__global__ void k(const float* x, float* out, int cols) {
  __shared__ float s[8];
  float v = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) v += x[blockIdx.x * cols + c];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = warp_sum(threadIdx.x < 8 ? s[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) out[blockIdx.x] = v;
  }
}
)" + Launch("  k<<<a, 256, 0, stream>>>(x, out, b);"),
                   32, 4096, 0, [](const float* x, const float*, float* out, const Case& c) { RowSum(x, out, c.a, c.b); }});
  cases.push_back({"softmax", R"(
__global__ void k(const float* x, float* out, int cols) {
  __shared__ float s[256];
  const float* in = x + blockIdx.x * cols;
  float* y = out + blockIdx.x * cols;
  int t = threadIdx.x;
  float m = -INFINITY;
  for (int c = t; c < cols; c += blockDim.x) m = fmaxf(m, in[c]);
  s[t] = m;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) {
    if (t < k) s[t] = fmaxf(s[t], s[t + k]);
    __syncthreads();
  }
  m = s[0];
  __syncthreads();
  float sum = 0;
  for (int c = t; c < cols; c += blockDim.x) {
    float e = expf(in[c] - m);
    y[c] = e;
    sum += e;
  }
  s[t] = sum;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  sum = s[0];
  for (int c = t; c < cols; c += blockDim.x) y[c] /= sum;
}
)" + Launch("  k<<<a, 256, 0, stream>>>(x, out, b);"),
                   16, 4096, 0, [](const float* x, const float*, float* out, const Case& c) { Softmax(x, out, c.a, c.b); }});
  cases.push_back({"matmul", R"(
__global__ void k(const float* a, const float* b, float* c, int m, int n, int k) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < m && col < n) {
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + col];
    c[row * n + col] = sum;
  }
}
)" + Launch("  dim3 block(16, 16);\n  dim3 grid((b + 15) / 16, (a + 15) / 16);\n  k<<<grid, block, 0, stream>>>(x, y, out, a, b, c);"),
                   128, 128, 128,
                   [](const float* x, const float* y, float* out, const Case& c) { Matmul(x, y, out, c.a, c.b, c.c); }});
  cases.push_back({"matmul_tiled", R"(
#define TILE 16
__global__ void k(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float as[TILE][TILE], bs[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int t = 0; t < k; t += TILE) {
    as[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : 0.0f;
    bs[threadIdx.y][threadIdx.x] = col < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[row * n + col] = sum;
}
)" + Launch("  dim3 block(16, 16);\n  dim3 grid((b + 15) / 16, (a + 15) / 16);\n  k<<<grid, block, 0, stream>>>(x, y, out, a, b, c);"),
                   128, 128, 128,
                   [](const float* x, const float* y, float* out, const Case& c) { Matmul(x, y, out, c.a, c.b, c.c); }});
  cases.push_back({"transpose", R"(
__global__ void k(const float* x, float* y, int rows, int cols) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r < rows && c < cols) y[c * rows + r] = x[r * cols + c];
}
)" + Launch("  dim3 block(32, 8);\n  dim3 grid((b + 31) / 32, (a + 7) / 8);\n  k<<<grid, block, 0, stream>>>(x, out, a, b);"),
                   250, 300, 0, [](const float* x, const float*, float* out, const Case& c) { Transpose(x, out, c.a, c.b); }});
  cases.push_back({"softmax_serial", R"(
__global__ void k(const float* x, float* y, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float m = -INFINITY, sum = 0.0f;
  for (int c = 0; c < cols; ++c) m = fmaxf(m, x[r * cols + c]);
  for (int c = 0; c < cols; ++c) {
    float e = expf(x[r * cols + c] - m);
    y[r * cols + c] = e;
    sum += e;
  }
  for (int c = 0; c < cols; ++c) y[r * cols + c] /= sum;
}
)" + Launch("  k<<<(a + 31) / 32, 32, 0, stream>>>(x, out, a, b);"),
                   16, 4096, 0, [](const float* x, const float*, float* out, const Case& c) { Softmax(x, out, c.a, c.b); }});
  return cases;
}

Signature CaseSignature() {
  Signature signature;
  for (const char* name : {"x", "y", "out"}) {
    TensorArgument tensor;
    tensor.spec.name = name;
    if (std::string(name) == "out") tensor.role = TensorArgument::Role::kOutput;
    signature.tensors.push_back(tensor);
  }
  for (const char* name : {"a", "b", "c"}) signature.sizes.push_back({name, 0, false});
  return signature;
}

// Processor time, so that a busy machine disturbs less.
double Now() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double SecondsOf(const std::function<void()>& run, int calls) {
  const double start = Now();
  for (int i = 0; i < calls; ++i) run();
  return (Now() - start) / calls;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

int Main(bool record) {
  auto folder = TempFolder::Create("emulator-bench");
  auto store = verifier::ArtefactStore::Create({folder->path()});
  auto builder = verifier::CreateCpuBuilder({}, store->get());
  if (!builder.ok()) {
    std::fprintf(stderr, "%s\n", builder.status().ToString().c_str());
    return 1;
  }
  std::vector<BenchResult> results;
  const auto keep = [&](const std::string& id, double value, const std::string& unit) {
    results.push_back({id, value, unit, ThisCommand(HONE_SOURCE_DIR), MachineKind(), Today(),
                       CurrentCommit(HONE_SOURCE_DIR)});
  };
  std::vector<float> x(1 << 20), y(1 << 20), got(1 << 20), want(1 << 20);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i * 7919 % 1009) / 500.0f - 1.0f;
    y[i] = static_cast<float>(i * 104729 % 997) / 500.0f - 1.0f;
  }
  std::printf("%-16s %10s %10s %8s %9s\n", "case", "kernel us", "loop us", "ratio", "build ms");
  std::vector<double> builds, barrier_builds;
  for (const Case& item : Cases()) {
    verifier::BuildRequest request;
    request.candidate.source = item.source;
    request.signature = CaseSignature();
    const auto built = (*builder)->Build(request);
    if (!built.ok() || built->status != VerdictStatus::kOk) {
      std::fprintf(stderr, "%s does not build: %s\n", item.id.c_str(),
                   built.ok() ? built->compiler_output.c_str() : built.status().ToString().c_str());
      return 1;
    }
    std::vector<double> build_ms;
    for (int i = 0; i < 12; ++i) {
      request.candidate.source = item.source + "// " + std::to_string(i) + "\n";  // another key, the same work
      const auto again = (*builder)->Build(request);
      if (again.ok()) build_ms.push_back(again->seconds * 1e3);
    }
    void* library = dlopen(built->artefact.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto entry = library == nullptr ? nullptr : reinterpret_cast<HoneEntry>(dlsym(library, HONE_ENTRY_SYMBOL));
    if (entry == nullptr) {
      std::fprintf(stderr, "%s: %s\n", item.id.c_str(), dlerror());
      return 1;
    }
    HoneTensor tensors[3] = {};
    tensors[0].data = x.data();
    tensors[1].data = y.data();
    tensors[2].data = got.data();
    const long long sizes[3] = {item.a, item.b, item.c};
    const HoneCall call = {tensors, 3, sizes, 3, nullptr, 0, nullptr};
    const auto kernel = [&] { entry(&call); };
    const auto plain = [&] { item.plain(x.data(), y.data(), want.data(), item); };
    kernel();
    plain();
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::abs(got[i] - want[i]) > 1e-3f * (1 + std::abs(want[i]))) {
        std::fprintf(stderr, "%s: element %zu is %g, not %g\n", item.id.c_str(), i, got[i], want[i]);
        return 1;
      }
    }
    const int calls = std::max(1, static_cast<int>(2e-3 / SecondsOf(plain, 3)));
    std::vector<double> kernel_s, plain_s, ratio;
    for (int round = 0; round < 41; ++round) {
      kernel_s.push_back(SecondsOf(kernel, calls));
      plain_s.push_back(SecondsOf(plain, calls));
      ratio.push_back(kernel_s.back() / plain_s.back());
    }
    std::printf("%-16s %10.1f %10.1f %8.2f %9.1f\n", item.id.c_str(), Median(kernel_s) * 1e6, Median(plain_s) * 1e6, Median(ratio),
                Median(build_ms));
    keep("emulator.overhead." + item.id, Median(ratio), "x");
    (item.source.find("__shared__") != std::string::npos ? barrier_builds : builds).push_back(Median(build_ms));
    std::fill(got.begin(), got.end(), 0.0f);
    std::fill(want.begin(), want.end(), 0.0f);
    dlclose(library);
  }
  keep("emulator.build_ms", Median(builds), "ms");
  keep("emulator.build_shared_ms", Median(barrier_builds), "ms");  // two artefacts: timed and checked
  if (!record) return 0;
  const absl::Status recorded = RecordResults(HONE_SOURCE_DIR "/bench/results.json", results);
  if (!recorded.ok()) std::fprintf(stderr, "%s\n", recorded.ToString().c_str());
  return recorded.ok() ? 0 : 1;
}

}  // namespace
}  // namespace hone::bench

extern "C" __attribute__((visibility("default"))) void* hone_workspace(unsigned long long bytes) {
  return hone_cpu_allocate(bytes);
}

int main(int argc, char** argv) { return hone::bench::Main(argc > 1 && std::strcmp(argv[1], "--record") == 0); }
