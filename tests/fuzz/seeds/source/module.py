import torch
from torch.utils.cpp_extension import load_inline
source = """
#include <cuda_runtime.h>
__global__ void k(float* x) { x[threadIdx.x] = 1; }
torch::Tensor f(torch::Tensor x) { k<<<1, 32>>>(x.data_ptr<float>()); return x.cuda(); }
"""
ext = load_inline(name="e", cpp_sources="", cuda_sources=source, extra_cuda_cflags=["-O3"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return ext.f(x.to("cuda:0")).cuda(device="cuda")
