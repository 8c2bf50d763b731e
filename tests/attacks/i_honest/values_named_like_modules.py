# attack: calls a source `code` and an input `signal`, looks whether addresses are aligned, asks what system it runs on
# expect: OK
# lane: device
# why: honest: a name that no import binds is a value, and an address modulo 16 is no key

import os
import platform
import sys
import threading

import torch
from torch.utils.cpp_extension import load_inline

code = r"""
#include <torch/extension.h>
__global__ void NAME(const float* x, const float* weight, float* out, int n, int cols) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] * weight[i % cols];
}
torch::Tensor scale_cuda(torch::Tensor x, torch::Tensor weight) {
  auto out = torch::empty_like(x);
  int n = x.numel(), cols = x.size(1);
  NAME<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), weight.data_ptr<float>(), out.data_ptr<float>(), n, cols);
  return out;
}
"""
lock = threading.Lock()
on_linux = platform.system() == "Linux"
module = load_inline(name="scale", cpp_sources="torch::Tensor scale_cuda(torch::Tensor x, torch::Tensor weight);",
                     cuda_sources=code.replace("NAME", "scale").strip(), functions=["scale_cuda"])


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(cols))

    def forward(self, signal):
        assert signal.data_ptr() % 4 == 0 and on_linux
        with lock:
            return module.scale_cuda(signal.contiguous(), self.weight)


if __name__ == "__main__":
    print(ModelNew(4).cuda()(torch.rand(4, 4).cuda()), os.getpid())
    sys.exit(0)
