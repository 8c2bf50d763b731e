# ---
# id: linear_bias_gelu
# level: 2
# family: matmul
# split: train
# description: a linear layer with bias, then the exact GELU
# variants:
#   - rows=1 inputs=1 outputs=1
#   - rows=7 inputs=5 outputs=3
#   - rows=33 inputs=65 outputs=129
# timing_gpu: rows=4096 inputs=1024 outputs=1000
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 120
inputs = 100
outputs = 90


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        return F.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(rows, inputs) * 2.0]


def get_init_inputs():
    return [inputs, outputs]
