# ---
# id: linear_norm_residual
# level: 3
# family: fused_layer
# split: train
# description: a linear layer, RMS normalisation with a learned gain, and the input added back
# variants:
#   - rows=1 width=1
#   - rows=7 width=13
#   - rows=33 width=65
# timing_gpu: rows=16384 width=1024
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

rows = 200
width = 70


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.gain = nn.Parameter(1.0 + 0.3 * torch.randn(width))

    def forward(self, x):
        y = self.linear(x)
        return x + y * torch.rsqrt((y * y).mean(dim=1, keepdim=True) + 1e-5) * self.gain


def get_inputs():
    return [torch.randn(rows, width) * 2.0]


def get_init_inputs():
    return [width]
