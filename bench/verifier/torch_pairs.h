#pragma once

// What torch_bench and protocol_bench share: PyTorch references with extensions that answer them, on square inputs, and the peer
// that measures such a pair as KernelBench does (kernelbench_protocol.py).

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "base/verify_request.h"

namespace hone::verifier {

/// A reference that computes `forward`, an expression in x.
inline std::string TorchReference(const std::string& forward, int size) {
  constexpr char kModule[] = R"(
import torch
rows = $SIZE
cols = $SIZE
class Model(torch.nn.Module):
    def forward(self, x):
        return $FORWARD
def get_inputs():
    return [torch.rand(rows, cols)]
def get_init_inputs():
    return []
)";
  return absl::StrReplaceAll(kModule, {{"$FORWARD", forward}, {"$SIZE", absl::StrCat(size)}});
}

/// A candidate with an extension called `name`; `kernel`: CUDA source with `torch::Tensor run(torch::Tensor x)`.
inline std::string TorchExtension(const std::string& kernel, const std::string& name) {
  constexpr char kModule[] = R"(
import torch
from torch.utils.cpp_extension import load_inline
CUDA = """$KERNEL"""
extension = load_inline(name="$NAME", cpp_sources="torch::Tensor run(torch::Tensor x);", cuda_sources=CUDA, functions=["run"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return extension.run(x)
)";
  return absl::StrReplaceAll(kModule, {{"$KERNEL", kernel}, {"$NAME", name}});
}

/// `expression`, in x[i], for each element.
inline std::string ElementwiseKernel(const std::string& expression) {
  constexpr char kSource[] = R"(
__global__ void kernel(const float* x, float* out, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) out[i] = $EXPRESSION;
}
torch::Tensor run(torch::Tensor x) {
  auto out = torch::empty_like(x);
  long n = x.numel();
  kernel<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
})";
  return absl::StrReplaceAll(kSource, {{"$EXPRESSION", expression}});
}

/// A kernel that gives the sum of squares of each row, one block of 256 threads a row, with `factor` (" * 0.5f") behind it.
inline std::string SumOfSquaresOnDevice(const std::string& factor = "") {
  constexpr char kSource[] = R"(
__global__ void kernel(const float* x, float* out, int cols) {
  __shared__ float part[256];
  float sum = 0;
  for (int c = threadIdx.x; c < cols; c += 256) {
    float v = x[blockIdx.x * (long)cols + c];
    sum += v * v;
  }
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0]$FACTOR;
}
)";
  return absl::StrReplaceAll(kSource, {{"$FACTOR", factor}});
}

/// The same as an extension.
inline std::string SumOfSquaresKernel(const std::string& factor = "") {
  return absl::StrCat(SumOfSquaresOnDevice(factor), R"(torch::Tensor run(torch::Tensor x) {
  auto out = torch::empty({x.size(0)}, x.options());
  kernel<<<x.size(0), 256>>>(x.data_ptr<float>(), out.data_ptr<float>(), x.size(1));
  return out;
})");
}

/// tanh of the transposed input, with `summand` (" + 0.5f") added before; rows and columns are multiples of 32.
inline std::string TransposeKernel(const std::string& summand = "") {
  constexpr char kSource[] = R"(
__global__ void kernel(const float* x, float* out, int rows, int cols) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) tile[threadIdx.y + i][threadIdx.x] = x[(r + i) * (long)cols + c];
  __syncthreads();
  int to_c = blockIdx.y * 32 + threadIdx.x, to_r = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) out[(to_r + i) * (long)rows + to_c] = tanhf(tile[threadIdx.x][threadIdx.y + i]$SUMMAND);
}
torch::Tensor run(torch::Tensor x) {
  int rows = x.size(0), cols = x.size(1);
  auto out = torch::empty({cols, rows}, x.options());
  kernel<<<dim3(cols / 32, rows / 32), dim3(32, 8)>>>(x.data_ptr<float>(), out.data_ptr<float>(), rows, cols);
  return out;
})";
  return absl::StrReplaceAll(kSource, {{"$SUMMAND", summand}});
}

/// The pair as the peer reads it.
inline absl::Status WritePair(const VerifyRequest& request, const std::string& path) {
  const nlohmann::json pair = {{"reference", request.task.reference}, {"candidate", request.candidate.source}};
  return WriteFileAtomically(path, pair.dump());
}

/// The peer, in a process of its own, on the pair in a file; `extensions`: folder where it builds.
inline SpawnOptions PeerProcess(const std::string& python, const std::string& script, const std::string& pair,
                                const std::string& extensions) {
  SpawnOptions spawn;
  spawn.argv = {python, script, pair};
  spawn.environment = {absl::StrCat("TORCH_EXTENSIONS_DIR=", extensions), "TORCH_CUDA_ARCH_LIST=9.0"};
  for (const char* name : {"PATH", "HOME", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_VISIBLE_DEVICES"}) {
    if (const char* value = std::getenv(name)) spawn.environment.push_back(absl::StrCat(name, "=", value));
  }
  spawn.inherit_environment = false;
  return spawn;
}

}  // namespace hone::verifier
