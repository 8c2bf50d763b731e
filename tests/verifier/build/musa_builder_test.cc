// What becomes of MUSA candidates: through a toolkit's mcc (here a script that stands where mcc would), through nvcc
// and through the emulation.

#include "verifier/build/musa_builder.h"

#include <dlfcn.h>
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <regex>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "native_run.h"
#include "verifier/build/elf_symbols.h"
#include "verifier/build/torch_builder.h"
#include "verifier/device/musa/dialect.h"

namespace hone::verifier {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using test::Input;
using test::MakeSignature;
using test::Output;

constexpr char kScale[] = R"(
#include <musa_runtime.h>
__global__ void scale(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * x[i];
}
extern "C" void launch(const float* x, float* out, int n, musaStream_t stream) {
  scale<<<(n + 255) / 256, 256, 0, stream>>>(x, out, n);
}
)";

/// Calls most of the runtime, and writes 3 where everything went as it should.
constexpr char kRuntime[] = R"(
#include <musa_runtime.h>
#include <musa_fp16.h>
#include <musa_bf16.h>
__constant__ float factor[2];
extern __shared__ float buffer[];
__global__ void fill(float* out, int n, float value, __mt_bfloat16 one, __half half_one) {
  buffer[threadIdx.x] = value * factor[1];
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = buffer[threadIdx.x] * __bfloat162float(one) * __half2float(half_one);
}
#define CHECK(call) do { musaError_t error = (call); if (error != musaSuccess) value = 100 + (int)error; } while (0)
extern "C" void launch(const float* x, float* out, int n, musaStream_t stream) {
  float value = 1.5f;
  float factors[2] = {7, 2};
  CHECK(musaMemcpyToSymbol(factor, factors, sizeof factors));
  CHECK(musaFuncSetAttribute(fill, musaFuncAttributeMaxDynamicSharedMemorySize, 32 << 10));
  int device = -1, count = 0, threads = 0;
  CHECK(musaGetDevice(&device));
  CHECK(musaGetDeviceCount(&count));
  CHECK(musaDeviceGetAttribute(&threads, musaDevAttrMaxThreadsPerBlock, device));
  musaDeviceProp properties;
  CHECK(musaGetDeviceProperties(&properties, device));
  if (threads != 1024 || count < 1 || properties.multiProcessorCount < 1) value = 200;
  float* scratch = nullptr;
  CHECK(musaMallocAsync(&scratch, n * sizeof(float), stream));
  CHECK(musaMemsetAsync(scratch, 0, n * sizeof(float), stream));
  CHECK(musaMemcpyAsync(scratch, x, n * sizeof(float), musaMemcpyDeviceToDevice, stream));
  CHECK(musaFreeAsync(scratch, stream));
  musaEvent_t event;
  CHECK(musaEventCreateWithFlags(&event, musaEventDisableTiming));
  CHECK(musaEventRecord(event, stream));
  CHECK(musaEventSynchronize(event));
  CHECK(musaEventDestroy(event));
  if (musaGetErrorName(musaErrorInvalidValue) == nullptr || musaGetLastError() != musaSuccess) value = 300;
  fill<<<(n + 63) / 64, 64, 64 * sizeof(float), stream>>>(out, n, value, __float2bfloat16(1.0f), __float2half(1.0f));
  CHECK(musaGetLastError());
}
)";

class Bench {
 public:
  Bench()
      : folder_(TempFolder::Create("musa-builder").value()), store_(ArtefactStore::Create({folder_.path()}).value()) {}

  Bench& Use(absl::StatusOr<std::unique_ptr<Builder>> builder) {
    INFO(builder.status().ToString());
    REQUIRE(builder.ok());
    builder_ = *std::move(builder);
    return *this;
  }
  Bench& OnCpu() { return Use(CreateMusaOnCpuBuilder({}, store_.get())); }
  Bench& OnCuda() {
    if (!FileExists(ToolkitFolder(kCudaDialect) + "/bin/nvcc")) SKIP("no CUDA toolkit");
    return Use(CreateMusaOnCudaBuilder({}, store_.get()));
  }

  BuildResult Build(const std::string& source) {
    BuildRequest request;
    request.candidate.backend = Backend::kMusa;
    request.candidate.source = source;
    request.signature = MakeSignature({Input("x"), Output("out")}, {"n"});
    request.timeout = absl::Seconds(250);  // nvcc is nice, and others may not be
    auto result = builder_->Build(request);
    INFO(result.status().ToString());
    REQUIRE(result.ok());
    return *result;
  }

  TempFolder folder_;
  std::unique_ptr<ArtefactStore> store_;
  std::unique_ptr<Builder> builder_;
};

/// The value of an environment variable for the life of this object.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

/// A toolkit whose mcc compiles host code with g++. It takes only what the real one would: --offload-arch, -x musa.
class Toolkit {
 public:
  Toolkit() : folder_(TempFolder::Create("musa-toolkit").value()) {
    std::filesystem::create_directories(folder_.path() + "/bin");
    std::filesystem::create_directories(folder_.path() + "/include");
    Write("include/musa_runtime.h",
          "#include <stddef.h>\ntypedef int musaError_t; typedef struct MUstream_st* musaStream_t;\n"
          "extern \"C\" { musaError_t musaPeekAtLastError(); musaError_t musaMemcpyAsync(void*, const void*, size_t, "
          "int, musaStream_t); }\n"
          "#define musaMemcpyDeviceToDevice 3\n");
    Write("bin/mcc",
          "#!/bin/bash\nif [ \"$1\" = --version ]; then echo 'mcc version 4.3.0 (fake)'; exit 0; fi\nargs=()\n"
          "say() { echo \"candidate.mu:1: error: $*\" >&2; exit 1; }\n"
          "for a in \"$@\"; do case \"$a\" in\n  musa) args+=(c++);;\n  --offload-arch=mp_*) arch=\"$arch ${a#*=}\";;\n"
          "  -Xcompiler*|--expt*|-gencode*) say \"unknown argument $a\";;\n  *) args+=(\"$a\");;\nesac; done\n"
          "if grep -q SHOW_ARCHITECTURE unit.mu; then say \"for$arch\"; fi\nexec g++ \"${args[@]}\"\n");
    std::filesystem::permissions(mcc(), std::filesystem::perms::all);
  }
  std::string path() const { return folder_.path(); }
  std::string mcc() const { return folder_.path() + "/bin/mcc"; }

 private:
  void Write(const std::string& name, const std::string& text) {
    REQUIRE(WriteFileAtomically(folder_.path() + "/" + name, text).ok());
  }
  TempFolder folder_;
};

constexpr char kHostOnly[] =
    "extern \"C\" void launch(const float* x, float* out, int n, musaStream_t stream) {\n"
    "  musaMemcpyAsync(out, x, n * sizeof(float), musaMemcpyDeviceToDevice, stream);\n}\n";

TEST_CASE("The toolchain is chosen by name, and an unknown name is told with those there are", "[verifier][musa]") {
  CHECK(ChooseMusaToolchain("").value() == MusaToolchain::kMcc);
  CHECK(ChooseMusaToolchain("compat/cuda").value() == MusaToolchain::kCompatCuda);
  const Setting setting("HONE_MUSA_TOOLCHAIN", "compat/cpu");
  CHECK(ChooseMusaToolchain("").value() == MusaToolchain::kCompatCpu);
  CHECK(ChooseMusaToolchain("mcc").value() == MusaToolchain::kMcc);
  const absl::Status unknown = ChooseMusaToolchain("cuda").status();
  CHECK(absl::IsInvalidArgument(unknown));
  CHECK(unknown.message() == "musa_toolchain: 'cuda'; there are mcc, compat/cuda, compat/cpu");
}

TEST_CASE("Architectures are read as torch_musa writes them, and others are refused by name", "[verifier][musa]") {
  using Names = std::vector<std::string>;
  CHECK(ParseMusaArchitectures("2.2;3.1").value() == Names{"mp_22", "mp_31"});
  CHECK(ParseMusaArchitectures("21 22, mp_31").value() == Names{"mp_21", "mp_22", "mp_31"});
  CHECK(ParseMusaArchitectures("").value().empty());
  const absl::Status unknown = ParseMusaArchitectures("22;90").status();
  CHECK(absl::IsInvalidArgument(unknown));
  CHECK_THAT(std::string(unknown.message()), ContainsSubstring("'90'; there are mp_10, mp_21, mp_22, mp_31, mp_32"));
}

TEST_CASE("Without mcc the backend says what to set and which toolchains there are by name", "[verifier][musa]") {
  Bench bench;
  const absl::Status status = CreateMccBuilder({"mp_22", "/nowhere", ""}, bench.store_.get()).status();
  CHECK(absl::IsFailedPrecondition(status));
  CHECK_THAT(std::string(status.message()), ContainsSubstring("MUSA_HOME"));
  CHECK_THAT(std::string(status.message()), ContainsSubstring("compat/cuda"));
}

TEST_CASE("mcc is found by MUSA_HOME or MUSA_PATH, gets the architectures, and is named with them",
          "[verifier][musa]") {
  const Toolkit toolkit;
  for (const char* variable : {"MUSA_HOME", "MUSA_PATH"}) {
    const Setting home(variable, toolkit.path());
    Bench bench;
    bench.Use(CreateMccBuilder({"mp_22;mp_31", "", ""}, bench.store_.get()));
    const BuildResult built = bench.Build(kHostOnly);
    INFO(built.message << built.compiler_output);
    CHECK(built.status == VerdictStatus::kOk);
    CHECK(built.toolchain == "mcc 4.3.0 mp_22,mp_31");
    const ElfSummary artefact = SummariseElf(ReadFile(built.artefact).value()).value();
    CHECK(artefact.exported == std::vector<std::string>{"hone_call"});
    const BuildResult shown = bench.Build(std::string("// SHOW_ARCHITECTURE\n") + kHostOnly);
    CHECK(shown.status == VerdictStatus::kCompile);
    CHECK_THAT(shown.message, ContainsSubstring("for mp_22 mp_31"));
  }
}

TEST_CASE("PYTORCH_MCC names the compiler, with words before it", "[verifier][musa]") {
  const Toolkit toolkit;
  const Setting home("MUSA_HOME", toolkit.path());
  const Setting named("PYTORCH_MCC", "env " + toolkit.mcc());
  Bench bench;
  bench.Use(CreateMccBuilder({"mp_21", "", ""}, bench.store_.get()));
  const BuildResult built = bench.Build(kHostOnly);
  INFO(built.message << built.compiler_output);
  CHECK(built.status == VerdictStatus::kOk);
  const Setting broken("PYTORCH_MCC", "/nowhere/mcc");
  CHECK(absl::IsFailedPrecondition(CreateMccBuilder({"mp_21", "", ""}, bench.store_.get()).status()));
}

TEST_CASE("Over the emulation a MUSA candidate runs, through a libmusart that hands on to the emulated runtime",
          "[verifier][musa]") {
  REQUIRE(dlopen(InstalledPath(kCompatRuntime).c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr);
  Bench bench;
  const BuildResult built = bench.OnCpu().Build(kRuntime);
  INFO(built.message << built.compiler_output);
  REQUIRE(built.status == VerdictStatus::kOk);
  CHECK_THAT(built.toolchain, StartsWith("musa-compat/cpu g++"));
  const ElfSummary artefact = SummariseElf(ReadFile(built.artefact).value()).value();
  for (const char* symbol : {"musaMallocAsync", "musaEventRecord", "musaPeekAtLastError"}) {
    INFO(symbol);
    CHECK(std::find(artefact.undefined.begin(), artefact.undefined.end(), symbol) != artefact.undefined.end());
  }
  test::Call call;
  call.tensors = {test::Bytes(std::vector<float>(100, 1)), test::Bytes(std::vector<float>(100, 0))};
  call.sizes = {100};
  const HoneCpuMode mode = {HONE_CPU_FORWARD, 0, 0, 0};
  const test::Outcome outcome =
      test::RunArtefact(built.artefact, MakeSignature({Input("x"), Output("out")}, {"n"}), call, mode);
  INFO(outcome.fault << " code " << outcome.code);
  REQUIRE(outcome.ok());
  CHECK(test::Floats(outcome.tensors[1]) == std::vector<float>(100, 3));
}

TEST_CASE("Through nvcc the same candidate is built, for the same libmusart", "[verifier][musa]") {
  Bench bench;
  const BuildResult built = bench.OnCuda().Build(kRuntime);
  INFO(built.message << built.compiler_output);
  REQUIRE(built.status == VerdictStatus::kOk);
  CHECK_THAT(built.toolchain, StartsWith("musa-compat/cuda nvcc 1"));
  const ElfSummary artefact = SummariseElf(ReadFile(built.artefact).value()).value();
  CHECK(artefact.exported == std::vector<std::string>{"hone_call"});
  CHECK(std::find(artefact.undefined.begin(), artefact.undefined.end(), "musaEventRecord") != artefact.undefined.end());
}

TEST_CASE("Errors speak MUSA: the candidate's file, the declaration", "[verifier][musa]") {
  Bench bench;
  bench.OnCpu();
  const BuildResult unknown = bench.Build(
      "extern \"C\" void launch(const float* x, float* out, int n, musaStream_t stream) {\n  nothing();\n}\n");
  CHECK(unknown.status == VerdictStatus::kCompile);
  CHECK_THAT(unknown.message, ContainsSubstring("candidate.mu:2"));
  const BuildResult other =
      bench.Build("extern \"C\" void launch(float* x, float* out, int n, musaStream_t stream) {}\n");
  CHECK(other.status == VerdictStatus::kCompile);
  CHECK_THAT(other.message, ContainsSubstring("int n, musaStream_t stream)"));
  const BuildResult none = bench.Build("__global__ void scale() {}\n");
  CHECK(none.status == VerdictStatus::kParse);
  CHECK_THAT(none.message, ContainsSubstring("musaStream_t stream"));
}

TEST_CASE("The rules hold under MUSA's names as under CUDA's", "[verifier][musa]") {
  Bench bench;
  bench.OnCpu();
  const std::pair<const char*, const char*> cases[] = {
      {"runtime_control", "void f() { musaLaunchHostFunc(0, 0, 0); }\n"},
      {"runtime_control", "void f() { muCtxSynchronize(); }\n"},
      {"library_header", "#include <mublas.h>\n"},
      {"library_kernels", "void f() { mublasSgemm(); }\n"},
      {"macro_of_the_language", "#define musaPeekAtLastError() 0\n"},
      {"runtime_control", "void f() { cudaLaunchHostFunc(0, 0, 0); }\n"},
      {"system_interface", "void f() { fork(); }\n"},
  };
  for (const auto& [rule, line] : cases) {
    INFO(line);
    const BuildResult built = bench.Build(std::string(line) + kScale);
    CHECK(built.status == VerdictStatus::kForbidden);
    CHECK_THAT(built.message, StartsWith(rule));
    CHECK_THAT(built.message, ContainsSubstring("line 1"));
  }
  const BuildResult plain = bench.Build(kScale);
  CHECK(plain.status == VerdictStatus::kOk);
  CHECK(plain.rules.empty());
  // A rule that only speaks, with the name as the candidate wrote it.
  const BuildResult streams = bench.Build(std::string("void f() { musaStream_t s; musaStreamCreate(&s); }\n") + kScale);
  CHECK(streams.status == VerdictStatus::kOk);
  REQUIRE(streams.rules.size() == 1);
  CHECK(streams.rules[0].rule == "side_stream");
  CHECK(streams.rules[0].evidence == "line 1: musaStreamCreate");
}

// Half a minute of nvcc over torch's headers: with the nightly tests.
TEST_CASE("Through nvcc a module's musa_sources become an extension for the same libmusart",
          "[verifier][musa][.nightly]") {
  if (!FileExists(ToolkitFolder(kCudaDialect) + "/bin/nvcc")) SKIP("no CUDA toolkit");
  const char* interpreter = std::getenv("HONE_PYTHON");
  absl::StatusOr<PythonEnvironment> python = PythonEnvironment::Probe(interpreter != nullptr ? interpreter : "python3");
  if (!python.ok() || python->torch_cuda.empty()) SKIP("no torch with CUDA");
  Bench bench;
  TorchBuilderOptions options;
  options.python = *std::move(python);
  options.niceness = 0;
  options.musa_compiler = FindNvccForMusa({}).value();
  options.musa = options.musa_compiler->toolchain;
  bench.Use(CreateTorchBuilder(options, bench.store_.get()));
  BuildRequest request;
  request.candidate = {Format::kTorch, Backend::kMusa, R"(
import torch
import torch_musa
from torch_musa.utils.musa_extension import load_inline
module = load_inline("twice", "torch::Tensor twice(torch::Tensor x);", """
__global__ void twice_kernel(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * x[i];
}
torch::Tensor twice(torch::Tensor x) {
  auto out = torch::empty_like(x);
  twice_kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  TORCH_CHECK(musaGetLastError() == musaSuccess);
  return out;
}
""", ["twice"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.twice(x)
)"};
  request.timeout = absl::Minutes(9);
  const auto built = bench.builder_->Build(request);
  INFO(built.status().ToString());
  REQUIRE(built.ok());
  INFO(built->message << built->compiler_output);
  CHECK(built->status == VerdictStatus::kOk);
  CHECK_THAT(built->toolchain, StartsWith("musa-compat/cuda nvcc "));
  request.candidate.source =
      absl::StrReplaceAll(request.candidate.source, {{"torch_musa.utils.musa_extension", "torch.utils.cpp_extension"},
                                                     {"load_inline(\"twice\", ", "load_inline(\"twice\", cpp_sources="},
                                                     {";\", \"\"\"", ";\", cuda_sources=\"\"\""},
                                                     {"\"\"\", [", "\"\"\", functions=["}});
  const auto of_cuda = bench.builder_->Build(request);
  REQUIRE(of_cuda.ok());
  CHECK(of_cuda->status == VerdictStatus::kCompile);
  CHECK_THAT(of_cuda->message, ContainsSubstring("CUDA sources, on a device without CUDA"));
}

TEST_CASE("Every function that the header declares is in the library", "[verifier][musa]") {
  void* library = dlopen(InstalledPath(kCompatRuntime).c_str(), RTLD_NOW);
  REQUIRE(library != nullptr);
  const std::string header = ReadFile(ResourcePath("musa/include/musa_runtime.h")).value();
  const size_t begin = header.find("extern \"C\" {"), end = header.find("\n}\n", begin);
  REQUIRE(end != std::string::npos);
  const std::string declared = header.substr(begin, end - begin);
  const std::regex name("\\b(musa[A-Z]\\w*)\\(");
  int functions = 0;
  for (std::sregex_iterator at(declared.begin(), declared.end(), name), last; at != last; ++at) {
    INFO((*at)[1].str());
    CHECK(dlsym(library, (*at)[1].str().c_str()) != nullptr);
    ++functions;
  }
  CHECK(functions > 35);
}

}  // namespace
}  // namespace hone::verifier
