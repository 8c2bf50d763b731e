// What the build stage makes of a candidate, and what the emulated kernels then do.

#include "verifier/build/cpu_builder.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <csignal>
#include <numeric>

#include "builder_bench.h"

namespace hone::verifier {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::BuilderBench;
using test::Bytes;
using test::Call;
using test::Floats;
using test::Input;
using test::MakeSignature;
using test::Outcome;
using test::Output;

Signature Unary() { return MakeSignature({Input("x"), Output("y")}, {"n"}); }

std::vector<float> Ramp(int n) {
  std::vector<float> values(n);
  for (int i = 0; i < n; ++i) values[i] = static_cast<float>(i % 17) - 8.0f;
  return values;
}

Call UnaryCall(int n) { return {{Bytes(Ramp(n)), Bytes(std::vector<float>(n))}, {n}, {}}; }

constexpr char kRelu[] = R"(#include <cuda_runtime.h>
#include <math.h>
__global__ void relu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
extern "C" void launch(const float* x, float* y, int n, cudaStream_t stream) {
  relu<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
)";

TEST_CASE("An element-wise kernel computes every element and touches no other", "[verifier][build][cpu]") {
  BuilderBench bench;
  for (int n : {1, 255, 256, 1000}) {
    const Outcome outcome = bench.Run(kRelu, Unary(), UnaryCall(n));
    std::vector<float> want = Ramp(n);
    for (float& v : want) v = v > 0 ? v : 0;
    CHECK(Floats(outcome.tensors[1]) == want);
  }
}

TEST_CASE("Threads of a block meet at barriers and share memory", "[verifier][build][cpu]") {
  BuilderBench bench;
  const char* source = R"(
template <typename T, int N>
__global__ void __launch_bounds__(256) sum_rows(const T* __restrict__ x, T* y, int cols) {
  __shared__ T s[N];
  T v = 0;
  for (int c = threadIdx.x; c < cols; c += blockDim.x) v += x[blockIdx.x * cols + c];
  s[threadIdx.x] = v;
  __syncthreads();
  for (int k = blockDim.x / 2; k > 0; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
extern "C" void launch(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  sum_rows<float, 256><<<dim3(rows,
      1), 256, 0, stream>>>(x, y, cols);
}
)";
  const Signature signature = MakeSignature({Input("x"), Output("y")}, {"rows", "cols"});
  const int rows = 3, cols = 1000;
  const auto x = Ramp(rows * cols);
  const Outcome outcome = bench.Run(source, signature, {{Bytes(x), Bytes(std::vector<float>(rows))}, {rows, cols}, {}});
  std::vector<float> want(rows);
  for (int r = 0; r < rows; ++r) want[r] = std::accumulate(x.begin() + r * cols, x.begin() + (r + 1) * cols, 0.0f);
  CHECK(Floats(outcome.tensors[1]) == want);  // small integers: exact in any order
}

TEST_CASE("Warp shuffles, dynamic shared memory and a partly filled last warp", "[verifier][build][cpu]") {
  BuilderBench bench;
  const char* source = R"(
__inline__ __device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  return v;
}
__global__ void sum(const float* x, float* y, int n) {
  extern __shared__ __align__(16) float partial[];
  float v = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[i];
  v = warp_sum(v);
  if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f;
    v = warp_sum(v);
    if (threadIdx.x == 0) y[0] = v;
  }
}
extern "C" void launch(const float* x, float* y, int n, cudaStream_t stream) {
  sum<<<1, 160, 5 * sizeof(float), stream>>>(x, y, n);
}
)";
  const auto x = Ramp(1003);
  const Outcome outcome = bench.Run(source, Unary(), {{Bytes(x), Bytes({0.0f})}, {1003}, {}});
  CHECK(Floats(outcome.tensors[1])[0] == std::accumulate(x.begin(), x.end(), 0.0f));
}

TEST_CASE("Votes count lanes that return at once, and results stay until every lane has read them", "[verifier][build][cpu]") {
  BuilderBench bench;
  const char* source = R"(
__global__ void k(const float* x, float* y, int n) {
  const int lane = threadIdx.x % 32;
  float v = __shfl_xor_sync(0xffffffffu, x[threadIdx.x], 31);           // the whole warp,
  const unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  v += 100.0f * __shfl_xor_sync(half, (float)lane, 1);                   // then its halves,
  const unsigned votes = __ballot_sync(half, lane % 3 == 0);
  v += 10000.0f * __popc(votes);
  const unsigned all = __ballot_sync(0xffffffffu, lane % 5 == 0);        // and the last thing that each does
  y[threadIdx.x] = v + 1000000.0f * __popc(all);
}
extern "C" void launch(const float* x, float* y, int n, cudaStream_t stream) { k<<<1, n, 0, stream>>>(x, y, n); }
)";
  const Outcome outcome = bench.Run(source, Unary(), UnaryCall(64));
  const std::vector<float> x = Ramp(64);
  std::vector<float> want(64);
  for (int i = 0; i < 64; ++i) {
    const int lane = i % 32, in_half = lane < 16 ? 6 : 5;  // 0, 3, ..., 15 and 18, ..., 30 are multiples of 3
    want[i] = x[i ^ 31] + 100.0f * (lane ^ 1) + 10000.0f * in_half + 7000000.0f;
  }
  CHECK(Floats(outcome.tensors[1]) == want);
}

TEST_CASE("Launches beyond the device's limits do not run and are reported", "[verifier][build][cpu]") {
  BuilderBench bench;
  for (const char* configuration : {"1, 1025", "0, 32", "1, 0", "dim3(1, 65536), 1", "1, dim3(32, 64)", "1, dim3(1, 1, 65)",
                                    "1, 32, 49153"}) {
    const std::string source = std::string("__global__ void k(float* y) { y[0] = 1; }\n") +
                               "extern \"C\" void launch(const float* x, float* y, int n, cudaStream_t s) { k<<<" +
                               configuration + ">>>(y); }\n";
    const BuildResult build = bench.Build(source, Unary());
    INFO(configuration << build.compiler_output);
    REQUIRE(build.status == VerdictStatus::kOk);
    const Outcome outcome = test::RunArtefact(build.artefact, Unary(), UnaryCall(4), {});
    CHECK(outcome.signal == 0);
    CHECK(outcome.code != 0);
    CHECK(std::isnan(Floats(outcome.tensors[1])[0]));
  }
}

TEST_CASE("An access past a buffer, shared or local array is a fault with its place", "[verifier][build][cpu]") {
  BuilderBench bench;
  const auto run = [&](const std::string& body) {
    const std::string source = "__global__ void k(const float* x, float* y, int n) {" + body +
                               "}\nextern \"C\" void launch(const float* x, float* y, int n, cudaStream_t s) {"
                               " k<<<1, 32, 64>>>(x, y, n); }\n";
    const BuildResult build = bench.Build(source, Unary());
    INFO(body << build.compiler_output);
    REQUIRE(build.status == VerdictStatus::kOk);
    return test::RunArtefact(build.checked_artefact, Unary(), UnaryCall(32), {HONE_CPU_FORWARD, 0, 1});
  };
  CHECK(run("y[threadIdx.x] = x[threadIdx.x];").signal == 0);
  const Outcome past = run("y[threadIdx.x + 1] = 0;");
  CHECK(past.signal == SIGSEGV);
  CHECK_THAT(past.fault, ContainsSubstring("0 bytes past the end of a device buffer of 128 bytes"));
  CHECK(run("y[0] = x[32];").signal == SIGSEGV);
  CHECK_THAT(run("((float*)x)[0] = 0;").fault, ContainsSubstring("read-only"));
  CHECK(run("__shared__ float s[32]; s[threadIdx.x + n] = 0; __syncthreads(); y[0] = s[0];").signal != 0);
  CHECK(run("float t[4] = {}; t[n] = 1; y[0] = t[0];").signal != 0);
  CHECK(run("extern __shared__ float d[]; d[threadIdx.x] = 0; y[0] = d[0];").signal == SIGSEGV);
}

// ---- Races that any order of threads hides, because sums commute. ----

std::string WithKernel(const std::string& body) {
  return "__global__ void k(const float* x, float* y, int n) {\n" + body +
         "\n}\nextern \"C\" void launch(const float* x, float* y, int n, cudaStream_t stream) {\n"
         "  k<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);\n}\n";
}

TEST_CASE("Threads that change one element without an atomic are a fault that names them", "[verifier][build][cpu]") {
  BuilderBench bench;
  const std::string index = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n";
  const std::vector<std::string> racy = {
      index + "  y[0] += x[i];",
      index + "  *y += x[i];",
      index + "  y[i / 2] = y[i / 2] + x[i];",
      index + "  y[0] = fmaxf(y[0], x[i]);",
      index + "  y[i % 4]++;",
      index + "  float* mine = y + i / 64;\n  mine[0] -= x[i];",
      // One thread a block, but several blocks.
      "  if (threadIdx.x == 0) y[0] += x[blockIdx.x];",
      // A barrier orders the threads of one block only.
      "  __syncthreads();\n  if (threadIdx.x == 0) y[0] += x[blockIdx.x];",
      "  __syncthreads();\n  if (threadIdx.x % 64 == 0) y[blockIdx.x] += x[threadIdx.x];",
  };
  for (const std::string& body : racy) {
    INFO(body);
    const verifier::BuildResult build = bench.Build(WithKernel(body), Unary());
    REQUIRE(build.status == VerdictStatus::kOk);
    const Outcome outcome = test::RunArtefact(build.checked_artefact, Unary(), UnaryCall(1000), {HONE_CPU_FORWARD, 0, 1});
    CHECK(outcome.signal == SIGILL);
    CHECK_THAT(outcome.fault, ContainsSubstring("a data race: thread "));
    CHECK_THAT(outcome.fault, ContainsSubstring("without an atomic"));
  }
}

TEST_CASE("Elements that one thread changes, and changes that barriers or atomics order, are no race", "[verifier][build][cpu]") {
  BuilderBench bench;
  const std::string index = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i >= n) return;\n";
  const std::vector<std::string> sound = {
      index + "  y[i] = 0.0f;\n  for (int j = 0; j < 8; ++j) y[i] += x[i];",
      index + "  y[i] = x[i];\n  y[i] = y[i] * 2.0f;",
      index + "  float s[2] = {x[i], 0.0f};\n  s[1] += s[0];\n  y[i] = s[1];",
      "  __shared__ float s[128];\n  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  s[threadIdx.x] = i < n ? x[i] : 0.0f;\n"
      "  __syncthreads();\n  if (threadIdx.x < 64) s[threadIdx.x] += s[threadIdx.x + 64];\n  __syncthreads();\n"
      "  if (i < n) y[i] = s[threadIdx.x % 64];",
      // Two warps, one after the other.
      "  int b = blockIdx.x * 128;\n  if (threadIdx.x == 0) y[b] = x[b];\n  __syncthreads();\n"
      "  if (threadIdx.x == 0) y[b] += 1.0f;\n  __syncthreads();\n  if (threadIdx.x == 64) y[b] += 2.0f;\n"
      "  if (threadIdx.x > 0 && b + threadIdx.x < n) y[b + threadIdx.x] = 0.0f;",
  };
  for (const std::string& body : sound) {
    INFO(body);
    bench.Run(WithKernel(body), Unary(), UnaryCall(1000));
  }
  const std::string atomics = WithKernel(index + "  if (i == 0) y[0] = 0.0f;\n  y[i] += 0.0f;\n  atomicAdd(&y[0], x[i]);");
  const verifier::BuildResult build = bench.Build(atomics, Unary());
  CHECK(test::RunArtefact(build.checked_artefact, Unary(), UnaryCall(1000), {HONE_CPU_FORWARD, 0, 1}).ok());
}

TEST_CASE("Host code cannot touch device memory in a checked run", "[verifier][build][cpu]") {
  BuilderBench bench;
  const char* source = R"(
__global__ void k(float* y) { y[threadIdx.x] = 2; }
extern "C" void launch(const float* x, float* y, int n, cudaStream_t s) { k<<<1, 4>>>(y); y[0] /= n; }
)";
  const BuildResult build = bench.Build(source, Unary());
  REQUIRE(build.status == VerdictStatus::kOk);
  const Outcome outcome = test::RunArtefact(build.checked_artefact, Unary(), UnaryCall(4), {HONE_CPU_FORWARD, 0, 1});
  CHECK(outcome.signal == SIGSEGV);
  CHECK_THAT(outcome.fault, ContainsSubstring("touched by host code"));
}

TEST_CASE("A barrier that some threads never reach ends the run with the reason", "[verifier][build][cpu]") {
  BuilderBench bench;
  const char* source = R"(
__global__ void k(float* y) {
  if (threadIdx.x < 16) __syncthreads(); else __syncwarp();
  if (threadIdx.x >= 16) while (true) __syncwarp(0xffffffff);
  y[threadIdx.x] = 1;
}
extern "C" void launch(const float* x, float* y, int n, cudaStream_t s) { k<<<1, 32>>>(y); }
)";
  const BuildResult build = bench.Build(source, Unary());
  REQUIRE(build.status == VerdictStatus::kOk);
  const Outcome outcome = test::RunArtefact(build.checked_artefact, Unary(), UnaryCall(32), {HONE_CPU_FORWARD, 0, 1}, 5);
  CHECK((outcome.signal == SIGILL || outcome.signal == SIGTRAP));
  CHECK_THAT(outcome.fault, ContainsSubstring("deadlock"));
}

TEST_CASE("Unusable text is a PARSE verdict that says why", "[verifier][build][cpu]") {
  BuilderBench bench;
  const auto message = [&](const std::string& source) {
    const BuildResult build = bench.Build(source, Unary());
    CHECK(build.status == VerdictStatus::kParse);
    return build.message;
  };
  CHECK_THAT(message(""), ContainsSubstring("empty"));
  CHECK_THAT(message(" \n\t"), ContainsSubstring("empty"));
  CHECK_THAT(message(std::string(2 << 20, 'x')), ContainsSubstring("2097152 bytes"));
  CHECK_THAT(message("int a = '\xff';"), ContainsSubstring("UTF-8 at byte 9"));
  CHECK_THAT(message(std::string("int a;\0int b;", 13)), ContainsSubstring("NUL"));
  CHECK_THAT(message("// launch\nvoid other() {}"), ContainsSubstring("no definition of `launch`"));
}

TEST_CASE("Compiler errors name the candidate's own lines", "[verifier][build][cpu]") {
  BuilderBench bench;
  const std::string source = R"(__global__ void k(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i][0];
}
extern "C" void launch(const float* x, float* y, int n, cudaStream_t s) {
  k<<<dim3(1,
       1), 32, 0, s>>>(x, y, m);
}
)";
  const BuildResult build = bench.Build(source, Unary());
  CHECK(build.status == VerdictStatus::kCompile);
  CHECK(build.message == "candidate.cu:3: invalid types 'const float[int]' for array subscript");
  CHECK_THAT(build.compiler_output, ContainsSubstring("    y[i] = x[i][0];"));
  CHECK_THAT(build.compiler_output, ContainsSubstring("candidate.cu:7: error: 'm' was not declared in this scope"));
}

TEST_CASE("A wrong signature of launch is a COMPILE verdict with the expected declaration", "[verifier][build][cpu]") {
  BuilderBench bench;
  for (const char* header : {"extern \"C\" void launch(float* x, float* y, int n, cudaStream_t s)",
                             "extern \"C\" int launch(const float* x, float* y, int n, cudaStream_t s)",
                             "void launch(const float* x, float* y, cudaStream_t s)",
                             "static void launch(const float* x, float* y, int n)"}) {
    const BuildResult build = bench.Build(std::string(header) + (std::string(header).find("int launch") != std::string::npos ? " { return 0; }" : " {}"), Unary());
    INFO(header << build.compiler_output);
    CHECK(build.status == VerdictStatus::kCompile);
    CHECK_THAT(build.message,
               ContainsSubstring("expected extern \"C\" void launch(const float* x, float* y, int n, cudaStream_t stream)"));
  }
}

TEST_CASE("What nvcc refuses is refused here", "[verifier][build][cpu]") {
  BuilderBench bench;
  const std::string launch = "extern \"C\" void launch(const float* x, float* y, int n, cudaStream_t s) {";
  const auto message = [&](const std::string& source) {
    const BuildResult build = bench.Build(source, Unary());
    CHECK(build.status == VerdictStatus::kCompile);
    return build.message;
  };
  CHECK_THAT(message("float f(float v) { return v; }\n__global__ void k(float* y) { y[0] = f(1); }\n" + launch + "}"),
             ContainsSubstring("candidate.cu:2: calling a __host__ function(\"f\")"));
  CHECK_THAT(message("__device__ float f(float v) { return v; }\n" + launch + " f(1); }"),
             ContainsSubstring("calling a __device__ function(\"f\")"));
  CHECK_THAT(message("__global__ void k(float* y) {}\n" + launch + " k(y); }"), ContainsSubstring("must be configured"));
  CHECK_THAT(message("__global__ int k(float* y) { return 0; }\n" + launch + "}"), ContainsSubstring("void return type"));
  CHECK_THAT(message("__global__ void k(float& y) {}\n" + launch + "}"), ContainsSubstring("reference type"));
  CHECK_THAT(message("__global__ void k(float* y) { __shared__ float s[2] = {1, 2}; y[0] = s[0]; }\n" + launch + "}"),
             ContainsSubstring("initializer"));
  CHECK_THAT(message("__global__ void k(float* y) { __shared__ float s[20000]; y[0] = s[0]; }\n" + launch +
                     " k<<<1, 1>>>(y); }"),
             ContainsSubstring("48 KB"));
}

TEST_CASE("Code that reaches outside the dialect is FORBIDDEN with the rule", "[verifier][build][cpu]") {
  BuilderBench bench;
  const std::string launch = "extern \"C\" void launch(const float* x, float* y, int n, cudaStream_t s) {";
  const auto rule = [&](const std::string& source) {
    const BuildResult build = bench.Build(source, Unary());
    INFO(build.compiler_output);
    CHECK(build.status == VerdictStatus::kForbidden);
    CHECK(build.artefact.empty());
    return build.rules.empty() ? "" : build.rules.front().rule;
  };
  CHECK(rule(launch + " asm volatile(\"syscall\"); }") == "inline_assembly");
  CHECK(rule("extern \"C\" int system(const char*);\n" + launch + " system(\"true\"); }") == "system_interface");
  CHECK(rule("extern \"C\" long syscall(long, ...);\n" + launch + " syscall(57); }") == "system_interface");
  CHECK(rule("extern \"C\" void* dlopen(const char*, int);\n" + launch + " dlopen(0, 1); }") == "system_interface");
  CHECK(rule("extern \"C\" int getppid();\n" + launch + " getppid(); }") == "foreign_symbol");
  CHECK(rule("#define P(a, b) a##b\n" + launch + " P(as, m) volatile(\"nop\"); }") == "assembler_directive");
  CHECK(rule("__attribute__((constructor)) static void early() {}\n" + launch + "}") == "attribute");
  CHECK(rule("extern \"C\" float expf(float);\nstatic float early = expf(sizeof(long) + 1.5f);\n"
             "static void* p = malloc(3);\n" + launch + " y[0] = *(float*)p + early; }") == "initialiser");
  CHECK(rule("extern \"C\" void hone_cpu_reset();\n" + launch + " hone_cpu_reset(); }") == "reserved_name");
}

TEST_CASE("Equal requests compile once", "[verifier][build][cpu]") {
  BuilderBench bench;
  const BuildResult first = bench.Build(kRelu, Unary());
  const BuildResult second = bench.Build(kRelu, Unary());
  CHECK_FALSE(first.from_cache);
  CHECK(second.from_cache);
  CHECK(first.artefact == second.artefact);
}

}  // namespace
}  // namespace hone::verifier
