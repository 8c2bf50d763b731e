// The porting table, row by row in both directions, and what musify leaves alone.

#include "verifier/musify/musify.h"

#include <catch2/catch_test_macros.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rollout/sampler/generator.h"
#include "verifier/musify/table.h"

namespace hone::verifier {
namespace {

using K = MusifyKind;

std::string Cxx(absl::string_view text, Direction direction = Direction::kToMusa) {
  return Musify(text, Language::kCxx, direction).text;
}
std::string Python(absl::string_view text, Direction direction = Direction::kToMusa) {
  return Musify(text, Language::kPython, direction).text;
}

/// What CUDA's names are in MUSA, one or more for each row of the table, written by hand from MUSA's headers and
/// torch_musa's map.
struct Pair {
  K kind;
  const char* cuda;
  const char* musa;
};
const std::vector<Pair>& Pairs() {
  static const auto* const pairs = new std::vector<Pair>{
      {K::kHeader, "ATen/cuda/CUDAContext.h", "torch_musa/csrc/aten/musa/MUSAContext.h"},
      {K::kHeader, "ATen/cuda/Exceptions.h", "torch_musa/csrc/aten/musa/Exceptions.h"},
      {K::kHeader, "ATen/cuda/CUDABlas.h", "torch_musa/csrc/aten/musa/MUSABlas.h"},
      {K::kHeader, "c10/cuda/CUDAGuard.h", "torch_musa/csrc/core/MUSAGuard.h"},
      {K::kHeader, "c10/cuda/CUDAStream.h", "torch_musa/csrc/core/MUSAStream.h"},
      {K::kHeader, "c10/cuda/CUDAException.h", "torch_musa/csrc/core/MUSAException.h"},
      {K::kHeader, "c10/cuda/CUDAFunctions.h", "torch_musa/csrc/core/MUSAFunctions.h"},
      {K::kHeader, "c10/cuda/CUDACachingAllocator.h", "torch_musa/csrc/core/MUSACachingAllocator.h"},
      {K::kName, "is_cuda", "is_privateuseone"},
      {K::kName, "kCUDA", "kPrivateUse1"},
      {K::kName, "getCurrentCUDAStream", "getCurrentMUSAStream"},
      {K::kName, "getDefaultCUDAStream", "getDefaultMUSAStream"},
      {K::kName, "CUDAGuard", "MUSAGuard"},
      {K::kName, "OptionalCUDAGuard", "OptionalMUSAGuard"},
      {K::kName, "CUDAStreamGuard", "MUSAStreamGuard"},
      {K::kName, "CUDAStream", "MUSAStream"},
      {K::kName, "CUDAEvent", "MUSAEvent"},
      {K::kName, "CUDACachingAllocator", "MUSACachingAllocator"},
      {K::kName, "CUDAContext", "MUSAContext"},
      {K::kName, "C10_CUDA_CHECK", "C10_MUSA_CHECK"},
      {K::kName, "AT_CUDA_CHECK", "C10_MUSA_CHECK"},
      {K::kName, "C10_CUDA_KERNEL_LAUNCH_CHECK", "C10_MUSA_KERNEL_LAUNCH_CHECK"},
      {K::kNamespace, "cuda", "musa"},
      {K::kHeader, "cuda.h", "musa.h"},
      {K::kHeader, "cuda_runtime.h", "musa_runtime.h"},
      {K::kHeader, "cuda_runtime_api.h", "musa_runtime_api.h"},
      {K::kHeader, "cuda_fp16.h", "musa_fp16.h"},
      {K::kHeader, "cuda_fp16.hpp", "musa_fp16.hpp"},
      {K::kHeader, "cuda_bf16.h", "musa_bf16.h"},
      {K::kHeader, "cuda_bf16.hpp", "musa_bf16.hpp"},
      {K::kHeader, "cuda_fp8.h", "musa_fp8.h"},
      {K::kHeader, "cuda_pipeline.h", "musa_pipeline.h"},
      {K::kHeader, "cuda_profiler_api.h", "musa_profiler_api.h"},
      {K::kHeader, "cuda_device_runtime_api.h", "musa_device_runtime_api.h"},
      {K::kHeader, "cuda_occupancy.h", "musa_occupancy.h"},
      {K::kHeader, "cudart_platform.h", "musart_platform.h"},
      {K::kHeader, "cuComplex.h", "muComplex.h"},
      {K::kHeader, "cublas_v2.h", "mublas.h"},
      {K::kHeader, "cublas.h", "mublas.h"},
      {K::kHeader, "cublasLt.h", "mublasLt.h"},
      {K::kHeader, "cufft.h", "mufft.h"},
      {K::kHeader, "curand.h", "murand.h"},
      {K::kHeader, "curand_kernel.h", "murand_kernel.h"},
      {K::kHeader, "cusolverDn.h", "musolverDn.h"},
      {K::kHeader, "cusparse.h", "musparse.h"},
      {K::kHeader, "cupti.h", "mupti.h"},
      {K::kHeader, "nvrtc.h", "mtrtc.h"},
      {K::kHeader, "nccl.h", "mccl.h"},
      {K::kHeader, "nvfunctional", "mtfunctional"},
      {K::kExtension, "reduce.cuh", "reduce.muh"},
      {K::kExtension, "reduce.cu", "reduce.mu"},
      {K::kName, "__CUDACC__", "__MUSACC__"},
      {K::kName, "__CUDA__", "__MUSA__"},
      {K::kName, "__CUDA_ARCH__", "__MUSA_ARCH__"},
      {K::kName, "__NVCC__", "__MUSACC__"},
      {K::kStart, "__CUDA_NO_HALF_OPERATORS__", "__MUSA_NO_HALF_OPERATORS__"},
      {K::kName, "__nv_bfloat16", "__mt_bfloat16"},
      {K::kName, "__nv_bfloat162", "__mt_bfloat162"},
      {K::kName, "nv_bfloat16", "mt_bfloat16"},
      {K::kName, "nv_bfloat162", "mt_bfloat162"},
      {K::kName, "nv_half", "mt_half"},
      {K::kName, "nv_half2", "mt_half2"},
      {K::kStart, "__nv_fp8_e4m3", "__mt_fp8_e4m3"},
      {K::kStart, "__nv_fp8x4_e4m3", "__mt_fp8x4_e4m3"},
      {K::kPrefix, "cudaMalloc", "musaMalloc"},
      {K::kPrefix, "cudaStream_t", "musaStream_t"},
      {K::kPrefix, "cudaErrorInvalidValue", "musaErrorInvalidValue"},
      {K::kPrefix, "make_cudaExtent", "make_musaExtent"},
      {K::kStart, "CUDART_INF_F", "MUSART_INF_F"},
      {K::kStart, "CUDA_R_16F", "MUSA_R_16F"},
      {K::kStart, "__cuda_builtin_blockIdx_t", "__musa_builtin_blockIdx_t"},
      {K::kStart, "CU_MEM_ALLOCATION_TYPE_PINNED", "MU_MEM_ALLOCATION_TYPE_PINNED"},
      {K::kStart, "CUdeviceptr", "MUdeviceptr"},
      {K::kStart, "CUdevice", "MUdevice"},
      {K::kStart, "CUcontext", "MUcontext"},
      {K::kStart, "CUctx_flags", "MUctx_flags"},
      {K::kStart, "CUmodule", "MUmodule"},
      {K::kStart, "CUfunction", "MUfunction"},
      {K::kStart, "CUstream", "MUstream"},
      {K::kStart, "CUevent", "MUevent"},
      {K::kStart, "CUresult", "MUresult"},
      {K::kStart, "CUmemAccessDesc", "MUmemAccessDesc"},
      {K::kStart, "CUarray", "MUarray"},
      {K::kStart, "CUlaunchConfig", "MUlaunchConfig"},
      {K::kStart, "CUgraph", "MUgraph"},
      {K::kStart, "CUuuid", "MUuuid"},
      {K::kStart, "cuInit", "muInit"},
      {K::kStart, "cuDriverGetVersion", "muDriverGetVersion"},
      {K::kStart, "cuDeviceGet", "muDeviceGet"},
      {K::kStart, "cuCtxSetCurrent", "muCtxSetCurrent"},
      {K::kStart, "cuMemcpyHtoD", "muMemcpyHtoD"},
      {K::kStart, "cuModuleLoadData", "muModuleLoadData"},
      {K::kStart, "cuFuncSetAttribute", "muFuncSetAttribute"},
      {K::kStart, "cuStreamCreate", "muStreamCreate"},
      {K::kStart, "cuEventRecord", "muEventRecord"},
      {K::kStart, "cuLaunchKernel", "muLaunchKernel"},
      {K::kStart, "cuGraphLaunch", "muGraphLaunch"},
      {K::kStart, "cuOccupancyMaxPotentialBlockSize", "muOccupancyMaxPotentialBlockSize"},
      {K::kStart, "cuPointerGetAttribute", "muPointerGetAttribute"},
      {K::kStart, "cuIpcOpenMemHandle", "muIpcOpenMemHandle"},
      {K::kStart, "cuLinkCreate", "muLinkCreate"},
      {K::kStart, "cuProfilerStart", "muProfilerStart"},
      {K::kStart, "cuGetErrorString", "muGetErrorString"},
      {K::kPrefix, "cublasSgemm", "mublasSgemm"},
      {K::kStart, "CUBLAS_OP_N", "MUBLAS_OP_N"},
      {K::kStart, "CUBLASLT_ORDER_COL", "MUBLASLT_ORDER_COL"},
      {K::kPrefix, "cufftExecC2C", "mufftExecC2C"},
      {K::kStart, "CUFFT_FORWARD", "MUFFT_FORWARD"},
      {K::kPrefix, "curandState", "murandState"},
      {K::kStart, "curand_uniform", "murand_uniform"},
      {K::kStart, "CURAND_RNG_PSEUDO_DEFAULT", "MURAND_RNG_PSEUDO_DEFAULT"},
      {K::kPrefix, "cusparseCreate", "musparseCreate"},
      {K::kStart, "CUSPARSE_INDEX_32I", "MUSPARSE_INDEX_32I"},
      {K::kPrefix, "cusolverDnCreate", "musolverDnCreate"},
      {K::kStart, "CUSOLVER_STATUS_SUCCESS", "MUSOLVER_STATUS_SUCCESS"},
      {K::kPrefix, "nvrtcCompileProgram", "mtrtcCompileProgram"},
      {K::kStart, "NVRTC_SUCCESS", "MTRTC_SUCCESS"},
      {K::kPrefix, "ncclAllReduce", "mcclAllReduce"},
      {K::kStart, "NCCL_VERSION_CODE", "MCCL_VERSION_CODE"},
      {K::kPythonName, "torch.utils.cpp_extension", "torch_musa.utils.musa_extension"},
      {K::kPythonName, "torch.cuda", "torch.musa"},
      {K::kPythonName, "torch.backends.cudnn", "torch.backends.mudnn"},
      {K::kPythonWord, "cuda", "musa"},
      {K::kPythonWord, "is_cuda", "is_musa"},
      {K::kPythonWord, "cuda_sources", "musa_sources"},
      {K::kPythonWord, "extra_cuda_cflags", "extra_musa_cflags"},
      {K::kPythonWord, "with_cuda", "with_musa"},
      {K::kPythonWord, "CUDAExtension", "MUSAExtension"},
      {K::kPythonWord, "CUDAGraph", "MUSAGraph"},
      {K::kPythonWord, "CUDA_HOME", "MUSA_HOME"},
      {K::kDevice, "cuda", "musa"},
      {K::kDevice, "nccl", "mccl"},
  };
  return *pairs;
}

/// A line that has the name where its kind belongs.
std::pair<Language, std::string> LineWith(K kind, const std::string& name) {
  switch (kind) {
    case K::kName:
    case K::kPrefix:
    case K::kStart:
      return {Language::kCxx, absl::StrCat("auto x = ", name, "(a);\n")};
    case K::kNamespace:
      return {Language::kCxx, absl::StrCat("at::", name, "::f();\n")};
    case K::kHeader:
    case K::kExtension:
      return {Language::kCxx, absl::StrCat("#include <", name, ">\n")};
    case K::kPythonName:
      return {Language::kPython, absl::StrCat("x = ", name, ".f()\n")};
    case K::kPythonWord:
      return {Language::kPython, absl::StrCat("f(x, ", name, "=y)\n")};
    case K::kDevice:
      return {Language::kPython, absl::StrCat("x.to('", name, "')\n")};
  }
  return {};
}

bool Fits(const MusifyRow& row, const Pair& pair) {
  const bool begins = row.kind == K::kPrefix || row.kind == K::kStart;
  if (row.kind != pair.kind) return false;
  if (row.kind == K::kExtension) return absl::EndsWith(pair.cuda, row.cuda);
  return begins ? absl::StartsWith(pair.cuda, row.cuda) : row.cuda == pair.cuda;
}

TEST_CASE("Every row of the porting table does what MUSA's headers say, there and back", "[verifier][musify]") {
  for (const MusifyRow& row : MusifyTable()) {
    int examples = 0;
    for (const Pair& pair : Pairs()) {
      if (!Fits(row, pair)) continue;
      ++examples;
      INFO(row.cuda << " in " << pair.cuda);
      const auto [language, cuda] = LineWith(pair.kind, pair.cuda);
      const std::string musa = LineWith(pair.kind, pair.musa).second;
      CHECK(Musify(cuda, language, Direction::kToMusa).text == musa);
      CHECK(Musify(musa, language, Direction::kToMusa).text == musa);
      CHECK(Musify(cuda, language, Direction::kToCuda).text == cuda);
      if (row.both_ways) CHECK(Musify(musa, language, Direction::kToCuda).text == cuda);
    }
    INFO("the row " << row.cuda << " has no example in this test");
    CHECK(examples > 0);
  }
}

TEST_CASE("Comments, strings, characters and a programmer's own names stay", "[verifier][musify]") {
  for (const char* text : {
           "// cudaMalloc and <cuda_runtime.h>\n",
           "/* cudaMalloc\n cudaFree */ int x;\n",
           "const char* s = \"cudaMalloc\";\n",
           "const char* s = R\"(cudaMalloc\ncudaFree)\";\n",
           "int c = 'cuda';\n",
           "void cuda_relu(); int cudaless; int my_cudaMalloc; struct cuda {};\n",
           "__syncthreads(); __shfl_xor_sync(m, x, 1); threadIdx.x; atomicAdd(p, 1.0f); float4 v; __half h;\n",
       }) {
    INFO(text);
    CHECK(Cxx(text) == text);
  }
  for (const char* text : {
           "# torch.cuda.synchronize()\n",
           "'''torch.cuda'''\n",
           "print('runs on cuda devices')\n",
           "cuda = 1\ncuda_sources = ''\n",
           "'cuda:x'\n",
       }) {
    INFO(text);
    CHECK(Python(text) == text);
  }
}

TEST_CASE("A source keeps its lines: launches, macros and continued lines", "[verifier][musify]") {
  const std::string cuda =
      "#include <cuda_runtime.h>\n#define CHECK(x) \\\n  if ((x) != cudaSuccess) return\n"
      "k<<<dim3(2, 3), 256, 0, stream>>>(a);  // cudaStream_t\nCHECK(cudaGetLastError());\n";
  const std::string musa =
      "#include <musa_runtime.h>\n#define CHECK(x) \\\n  if ((x) != musaSuccess) return\n"
      "k<<<dim3(2, 3), 256, 0, stream>>>(a);  // cudaStream_t\nCHECK(musaGetLastError());\n";
  CHECK(Cxx(cuda) == musa);
  CHECK(Cxx(musa, Direction::kToCuda) == cuda);
}

TEST_CASE("A torch module becomes one for torch_musa, its sources with it, and comes back", "[verifier][musify]") {
  const std::string cuda = R"(import torch
from torch.utils.cpp_extension import load_inline

cuda_sources = '''
#include <cuda_runtime.h>
__global__ void relu(const float* x, float* y, int n) {}  // cudaStream_t
torch::Tensor run(torch::Tensor x) { relu<<<1, 1, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), 0, 0); return x; }
'''
module = load_inline(name="cuda", cuda_sources=cuda_sources, extra_cuda_cflags=["-O3"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        torch.cuda.synchronize()  # of torch.cuda
        return module.run(x.cuda().to("cuda:0"))
)";
  const std::string musa = Python(cuda);
  for (const char* has :
       {"import torch\nimport torch_musa\n", "from torch_musa.utils.musa_extension import load_inline",
        "#include <musa_runtime.h>", "{}  // cudaStream_t", "at::musa::getCurrentMUSAStream()",
        "musa_sources=cuda_sources", "extra_musa_cflags=[", "torch.musa.synchronize()  # of torch.cuda",
        "x.musa().to(\"musa:0\")", "\ncuda_sources = '''"}) {
    INFO(has << "\nin\n" << musa);
    CHECK(absl::StrContains(musa, has));
  }
  CHECK(Python(musa) == musa);
  CHECK(Python(musa, Direction::kToCuda) == cuda);
}

TEST_CASE("The import of torch_musa follows the statement that imports torch, wherever that ends", "[verifier][musify]") {
  const std::string use = "torch.cuda.synchronize()\n", used = "torch.musa.synchronize()\n";
  const std::string imported = "import torch_musa\n";
  for (const std::string& statement :
       {std::string("import torch\n"), std::string("import torch  # \"\"\" no string\n"),
        std::string("import torch; text = \"\"\"\n# of two lines\n\"\"\"\n"), std::string("import torch, \\\n  math\n"),
        std::string("import torch; sizes = [\n  1,\n]\n"), std::string("import math\nfrom torch import (\n  nn,\n)\n"),
        std::string("if True:\n  import torch\nimport torch\n"), std::string("import torch.nn as nn\n")}) {
    INFO(statement);
    const std::string musa = Python(statement + use);
    CHECK(musa == statement + imported + used);
    CHECK(Python(musa) == musa);
    CHECK(Python(musa, Direction::kToCuda) == statement + use);
  }
}

TEST_CASE("What has no counterpart is told with its line and does not change", "[verifier][musify]") {
  const std::string text =
      "#include <cudnn.h>\n\n__device__ float f(float x) {\n  asm(\"ex2 %0, %0;\" : \"+f\"(x));\n  return x;\n}\n"
      "wmma::fragment<nvcuda::wmma::matrix_a> a;\nint full = 0xffffffff;\n";
  const Musified musified = Musify(text, Language::kCxx, Direction::kToMusa);
  CHECK(musified.text == text);
  REQUIRE(musified.findings.size() == 4);
  CHECK(musified.findings[0].line == 1);
  CHECK(musified.findings[0].what == "cudnn.h");
  CHECK(musified.findings[1].line == 4);
  CHECK(musified.findings[1].what == "asm");
  CHECK(musified.findings[1].blocks);
  CHECK(musified.findings[2].what == "nvcuda");
  CHECK(musified.findings[3].line == 8);
  CHECK_FALSE(musified.findings[3].blocks);
  CHECK(Musify(text, Language::kCxx, Direction::kToCuda).findings.empty());
  CHECK_FALSE(Musify("#include <cuda_texture_x.h>\n", Language::kCxx, Direction::kToMusa).findings.empty());
}

TEST_CASE("A thousand written kernels convert without a gap, twice as once, and come back as they were",
          "[verifier][musify]") {
  rollout::Generator generator(11);
  for (int i = 0; i < 1000; ++i) {
    const std::string cuda = generator.NextExample().demonstration.source;
    const Musified musa = Musify(cuda, Language::kCxx, Direction::kToMusa);
    INFO(cuda);
    for (const MusifyFinding& finding : musa.findings) CHECK_FALSE(finding.blocks);
    CHECK(Cxx(musa.text) == musa.text);
    CHECK(Cxx(musa.text, Direction::kToCuda) == cuda);
    CHECK_FALSE(absl::StrContains(musa.text, "cudaStream_t"));
  }
}

TEST_CASE("Files are named as their language", "[verifier][musify]") {
  CHECK(MusifiedName("a/softmax.cu", Direction::kToMusa) == "a/softmax.mu");
  CHECK(MusifiedName("a/softmax.muh", Direction::kToCuda) == "a/softmax.cuh");
  CHECK(MusifiedName("a.cu/task.py", Direction::kToMusa) == "a.cu/task.py");
}

TEST_CASE("Text that ends in the middle of something is converted as far as it goes", "[verifier][musify]") {
  for (const char* text : {"", "\"cuda", "/* cuda", "#include <cuda", "#include", "R\"(", "cuda", "'''", "f('cuda",
                           "torch.", "import torch", "import torch \"\"\"\nx.cuda", "import torch (\ntorch.cuda",
                           "import torch \\\ntorch.cuda", "x.cuda\nimport torch '\n"}) {
    INFO(text);
    CHECK(Cxx(Cxx(text)) == Cxx(text));
    CHECK(Python(Python(text)) == Python(text));
  }
}

}  // namespace
}  // namespace hone::verifier
