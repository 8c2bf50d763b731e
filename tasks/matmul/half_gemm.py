# ---
# id: half_gemm
# level: 1
# family: matmul
# split: train
# dtype: float16
# description: product of two half-precision matrices
# variants:
#   - m=1 n=1 k=1
#   - m=7 n=5 k=3
#   - m=33 n=65 k=129
# timing_gpu: m=4096 n=4000 k=2048
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

m = 80
n = 90
k = 70


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(m, k).half(), torch.randn(k, n).half()]


def get_init_inputs():
    return []
