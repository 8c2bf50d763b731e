#include "rollout/prompt/worked_examples.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace hone::rollout {
namespace {

constexpr char kHeaders[] = "#include <cuda_runtime.h>\n#include <float.h>\n#include <math.h>\n\n";

// Tasks of their own: none is in a suite.
WorkedExample Make(const char* id, const char* description, const char* reference, const char* skeleton, const char* source) {
  WorkedExample example;
  example.task.id = id;
  example.task.description = description;
  example.task.reference = reference;
  example.skeleton = absl::StrCat(kHeaders, skeleton);
  example.source = absl::StrCat(kHeaders, source);
  return example;
}

WorkedExample Elements() {
  return Make("example_elements", "the sum of two vectors, the second one doubled",
              R"(import torch
import torch.nn as nn

n = 5000


class Model(nn.Module):
    def forward(self, a, b):
        return a + 2 * b


def get_inputs():
    return [torch.randn(n), torch.randn(n)]


def get_init_inputs():
    return []
)",
              R"(// a [n]: a[i]
// b [n]: b[i]
// out [n]: out[i]
extern "C" void launch(const float* a, const float* b, float* out, int n, cudaStream_t stream) {
}
)",
              R"(__global__ void add_doubled(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = a[i] + 2.0f * b[i];
    }
}

extern "C" void launch(const float* a, const float* b, float* out, int n, cudaStream_t stream) {
    int threads = 256;
    int blocks = (n + threads - 1) / threads;
    add_doubled<<<blocks, threads, 0, stream>>>(a, b, out, n);
}
)");
}

WorkedExample Outputs() {
  return Make("example_outputs", "each element minus its right neighbour, times its channel's weight",
              R"(import torch
import torch.nn as nn

batch = 3
channels = 5
length = 70


class Model(nn.Module):
    def forward(self, x, weight):
        return (x[:, :, :-1] - x[:, :, 1:]) * weight.view(1, -1, 1)


def get_inputs():
    return [torch.randn(batch, channels, length), torch.randn(channels)]


def get_init_inputs():
    return []
)",
              R"(// x [batch, channels, length]: x[(i * channels + j) * length + k]
// weight [channels]: weight[i]
// out [batch, channels, out_dim2]: out[(i * channels + j) * out_dim2 + k]
extern "C" void launch(const float* x, const float* weight, float* out, int batch, int channels, int length, int out_dim2, cudaStream_t stream) {
}
)",
              R"(__global__ void differences(const float* x, const float* weight, float* out, int batch, int channels, int length, int out_dim2) {
    int index = blockIdx.x * blockDim.x + threadIdx.x;
    if (index < batch * channels * out_dim2) {
        int k = index % out_dim2;
        int c = (index / out_dim2) % channels;
        int b = index / (out_dim2 * channels);
        const float* row = x + (b * channels + c) * length;
        out[index] = (row[k] - row[k + 1]) * weight[c];
    }
}

extern "C" void launch(const float* x, const float* weight, float* out, int batch, int channels, int length, int out_dim2, cudaStream_t stream) {
    int total = batch * channels * out_dim2;
    int threads = 256;
    int blocks = (total + threads - 1) / threads;
    differences<<<blocks, threads, 0, stream>>>(x, weight, out, batch, channels, length, out_dim2);
}
)");
}

WorkedExample Rows() {
  return Make("example_rows", "of each row, the product of matching elements summed up",
              R"(import torch
import torch.nn as nn

rows = 40
cols = 300


class Model(nn.Module):
    def forward(self, a, b):
        return (a * b).sum(dim=1)


def get_inputs():
    return [torch.randn(rows, cols), torch.randn(rows, cols)]


def get_init_inputs():
    return []
)",
              R"(// a [rows, cols]: a[i * cols + j]
// b [rows, cols]: b[i * cols + j]
// out [rows]: out[i]
extern "C" void launch(const float* a, const float* b, float* out, int rows, int cols, cudaStream_t stream) {
}
)",
              R"(__global__ void row_products(const float* a, const float* b, float* out, int cols) {
    __shared__ float partial[256];
    int row = blockIdx.x;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) {
        sum += a[row * cols + c] * b[row * cols + c];
    }
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) {
            partial[threadIdx.x] += partial[threadIdx.x + step];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        out[row] = partial[0];
    }
}

extern "C" void launch(const float* a, const float* b, float* out, int rows, int cols, cudaStream_t stream) {
    row_products<<<rows, 256, 0, stream>>>(a, b, out, cols);
}
)");
}

WorkedExample Tiles() {
  return Make("example_tiles", "every element times its column's weight, plus its row's bias",
              R"(import torch
import torch.nn as nn

rows = 60
cols = 90


class Model(nn.Module):
    def forward(self, x, weight, bias):
        return x * weight + bias.unsqueeze(1)


def get_inputs():
    return [torch.randn(rows, cols), torch.randn(cols), torch.randn(rows)]


def get_init_inputs():
    return []
)",
              R"(// x [rows, cols]: x[i * cols + j]
// weight [cols]: weight[i]
// bias [rows]: bias[i]
// out [rows, cols]: out[i * cols + j]
extern "C" void launch(const float* x, const float* weight, const float* bias, float* out, int rows, int cols, cudaStream_t stream) {
}
)",
              R"(__global__ void scale_and_shift(const float* x, const float* weight, const float* bias, float* out, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && col < cols) {
        out[row * cols + col] = x[row * cols + col] * weight[col] + bias[row];
    }
}

extern "C" void launch(const float* x, const float* weight, const float* bias, float* out, int rows, int cols, cudaStream_t stream) {
    dim3 threads(32, 8);
    dim3 blocks((cols + 31) / 32, (rows + 7) / 8);
    scale_and_shift<<<blocks, threads, 0, stream>>>(x, weight, bias, out, rows, cols);
}
)");
}

struct Word {
  const char* text;
  LaunchShape shape;
};

constexpr Word kFamilies[] = {
    {"elementwise", LaunchShape::kElements},    {"fused_chain", LaunchShape::kElements},
    {"convolution", LaunchShape::kOutputs},     {"pooling", LaunchShape::kOutputs},
    {"stencil", LaunchShape::kOutputs},         {"indexing", LaunchShape::kOutputs},
    {"column_reduction", LaunchShape::kOutputs}, {"row_reduction", LaunchShape::kRows},
    {"softmax", LaunchShape::kRows},            {"normalization", LaunchShape::kRows},
    {"scan", LaunchShape::kRows},               {"selection", LaunchShape::kRows},
    {"loss", LaunchShape::kRows},               {"matmul", LaunchShape::kTiles},
    {"layout", LaunchShape::kTiles},            {"broadcast", LaunchShape::kTiles},
    {"fused_layer", LaunchShape::kTiles}};

// In this order: a convolution that ends in a mean over its windows is a convolution first.
constexpr Word kOperators[] = {
    {"Conv", LaunchShape::kOutputs},      {"conv", LaunchShape::kOutputs},       {"Pool", LaunchShape::kOutputs},
    {"pool", LaunchShape::kOutputs},      {"matmul", LaunchShape::kTiles},       {"torch.mm", LaunchShape::kTiles},
    {"torch.bmm", LaunchShape::kTiles},   {"einsum", LaunchShape::kTiles},       {"Linear", LaunchShape::kTiles},
    {" @ ", LaunchShape::kTiles},         {"transpose", LaunchShape::kTiles},    {"permute", LaunchShape::kTiles},
    {"torch.diag", LaunchShape::kTiles},  {"softmax", LaunchShape::kRows},       {"Norm", LaunchShape::kRows},
    {"norm(", LaunchShape::kRows},        {"cumsum", LaunchShape::kRows},        {"cumprod", LaunchShape::kRows},
    {"sum(", LaunchShape::kRows},         {"mean(", LaunchShape::kRows},         {"var(", LaunchShape::kRows},
    {"max(", LaunchShape::kRows},         {"min(", LaunchShape::kRows},          {"argm", LaunchShape::kRows},
    {"prod(", LaunchShape::kRows},        {"loss", LaunchShape::kRows},          {"entropy", LaunchShape::kRows}};

}  // namespace

LaunchShape ShapeOf(const Task& task) {
  for (const Word& family : kFamilies) {
    if (task.family == family.text) return family.shape;
  }
  for (const Word& name : kOperators) {
    if (absl::StrContains(task.reference, name.text)) return name.shape;
  }
  return LaunchShape::kElements;
}

WorkedExample ExampleOf(LaunchShape shape) {
  switch (shape) {
    case LaunchShape::kElements: return Elements();
    case LaunchShape::kOutputs: return Outputs();
    case LaunchShape::kRows: return Rows();
    case LaunchShape::kTiles: return Tiles();
  }
  return Elements();
}

}  // namespace hone::rollout
