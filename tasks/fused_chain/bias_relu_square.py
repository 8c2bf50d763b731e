# ---
# id: bias_relu_square
# level: 1
# family: fused_chain
# split: train
# description: adds a learned bias to each column, then the squared rectifier
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

rows = 384
cols = 1000


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features) * 0.5)

    def forward(self, x):
        return torch.relu(x + self.bias) ** 2


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return [cols]
