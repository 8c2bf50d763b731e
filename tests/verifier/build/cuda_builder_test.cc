// What nvcc and the rules around it make of a candidate. Nothing runs here: there may be no GPU.

#include "verifier/build/cuda_builder.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <memory>

#include "base/file.h"
#include "native_run.h"
#include "verifier/build/elf_symbols.h"
#include "verifier/device/cuda/driver.h"

namespace hone::verifier {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::Input;
using test::MakeSignature;
using test::Output;

constexpr char kRelu[] = R"(
__device__ float positive(float x) {
  float y;
  asm("max.f32 %0, %1, 0f00000000;" : "=f"(y) : "f"(x));
  return y;
}
__global__ void relu(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = positive(x[i]);
}
extern "C" void launch(const float* x, float* out, int n, cudaStream_t stream) {
  relu<<<(n + 255) / 256, 256, 0, stream>>>(x, out, n);
}
)";

class Bench {
 public:
  Bench() : folder_(TempFolder::Create("cuda-builder").value()) {
    if (!FileExists(ToolkitFolder(kCudaDialect) + "/bin/nvcc")) SKIP("no CUDA toolkit");
    store_ = ArtefactStore::Create({folder_.path()}).value();
    auto builder = CreateCudaBuilder({}, store_.get());
    INFO(builder.status());
    REQUIRE(builder.ok());
    builder_ = *std::move(builder);
  }
  BuildResult Build(const std::string& source, absl::Duration timeout = absl::Seconds(100)) {
    BuildRequest request;
    request.candidate.backend = Backend::kCuda;
    request.candidate.source = source;
    request.signature = MakeSignature({Input("x"), Output("out")}, {"n"});
    request.timeout = timeout;
    auto result = builder_->Build(request);
    INFO(result.status());
    REQUIRE(result.ok());
    return *result;
  }

  TempFolder folder_;
  std::unique_ptr<ArtefactStore> store_;
  std::unique_ptr<Builder> builder_;
};

TEST_CASE("A CUDA candidate becomes one artefact, with PTX in its device code, and is found again", "[verifier][build]") {
  Bench bench;
  const BuildResult built = bench.Build(kRelu);
  INFO(built.message << built.compiler_output);
  REQUIRE(built.status == VerdictStatus::kOk);
  CHECK(built.artefact == built.checked_artefact);
  CHECK_THAT(built.toolchain, ContainsSubstring("sm_90"));
  CHECK_FALSE(built.from_cache);
  const ElfSummary artefact = SummariseElf(ReadFile(built.artefact).value()).value();
  CHECK(artefact.exported == std::vector<std::string>{"hone_call"});
  CHECK(bench.Build(kRelu).from_cache);
}

TEST_CASE("What nvcc says is a verdict with the candidate's own line", "[verifier][build]") {
  Bench bench;
  const BuildResult unknown = bench.Build("extern \"C\" void launch(const float* x, float* out, int n, cudaStream_t stream) {\n  nothing();\n}\n");
  CHECK(unknown.status == VerdictStatus::kCompile);
  CHECK_THAT(unknown.message, ContainsSubstring("candidate.cu:2: identifier \"nothing\" is undefined"));
  CHECK_THAT(unknown.compiler_output, ContainsSubstring("nothing();"));
  const BuildResult other = bench.Build("extern \"C\" void launch(float* x, float* out, int n, cudaStream_t stream) {}\n");
  CHECK(other.status == VerdictStatus::kCompile);
  CHECK_THAT(other.message, ContainsSubstring("wrong signature of `launch`"));
}

TEST_CASE("A compiler that takes too long is stopped, and that is not remembered", "[verifier][build]") {
  Bench bench;
  const BuildResult built = bench.Build(kRelu, absl::Milliseconds(50));
  CHECK(built.status == VerdictStatus::kCompileTimeout);
  CHECK(bench.store_->entries() == 0);
}

TEST_CASE("Rules before nvcc: libraries that do the compute, assembly in host code, no launch", "[verifier][build]") {
  Bench bench;
  CHECK(bench.Build(std::string("#include <cublas_v2.h>\n") + kRelu).status == VerdictStatus::kForbidden);
  CHECK(bench.Build(std::string("void host() { asm(\"nop\"); }\n") + kRelu).status == VerdictStatus::kForbidden);
  CHECK(bench.Build("__global__ void relu() {}\n").status == VerdictStatus::kParse);
}

TEST_CASE("Host code that asks for more than the runtime is FORBIDDEN by its name", "[verifier][build]") {
  Bench bench;
  const BuildResult built = bench.Build(
      "#include <unistd.h>\nextern \"C\" void launch(const float* x, float* out, int n, cudaStream_t stream) { fork(); }\n");
  CHECK(built.status == VerdictStatus::kForbidden);
  CHECK_THAT(built.message, ContainsSubstring("system_interface: line 2: fork"));
}

TEST_CASE("Pasted assembly and initialisers of host code are FORBIDDEN after nvcc, and honest neighbours pass", "[verifier][build]") {
  Bench bench;
  const std::string paste = "#define P(a, b) a##b\n";
  const BuildResult assembly = bench.Build(paste + "void host() { P(as, m) volatile(\"syscall\"); }\nvoid* keep = (void*)&host;\n" + kRelu);
  CHECK(assembly.status == VerdictStatus::kForbidden);
  CHECK_THAT(assembly.message, ContainsSubstring("assembler_directive"));
  const BuildResult early = bench.Build(
      paste + "__attribute__((P(const, ructor))) static void early() { for (volatile int i = 0; i < 9; ++i) {} }\n" + kRelu);
  CHECK(early.status == VerdictStatus::kForbidden);
  CHECK_THAT(early.message, ContainsSubstring("initialiser"));
  const BuildResult honest = bench.Build(
      std::string("#include <cuda_fp16.h>\n#include <vector>\n#include <cooperative_groups.h>\n"
                  "#define PREFETCH(p) asm volatile(\"prefetch.global.L2 [%0];\" :: \"l\"(p))\n"
                  "static std::vector<int> table = {1, 2, 3};\n__constant__ float factors[4];\n"
                  "__device__ void fetch(const float* x) { PREFETCH(x); }\n") + kRelu);
  INFO(honest.message << honest.compiler_output);
  CHECK(honest.status == VerdictStatus::kOk);
}

}  // namespace
}  // namespace hone::verifier
