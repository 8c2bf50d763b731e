# ---
# id: gemm_row_column
# level: 1
# family: matmul
# split: train
# description: product of two row-major matrices
# variants:
#   - m=1 n=1 k=1
#   - m=7 n=5 k=3
#   - m=33 n=65 k=129
# timing_gpu: m=2048 n=2000 k=1024
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

m = 96
n = 110
k = 130


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(m, k), torch.randn(k, n)]


def get_init_inputs():
    return []
