# ---
# id: outer_tanh
# level: 1
# family: broadcast
# split: train
# description: tanh of every sum of a row value and a column value
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=8192 cols=8191
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

rows = 500
cols = 800


class Model(nn.Module):
    def forward(self, u, v):
        return torch.tanh(u[:, None] + v[None, :])


def get_inputs():
    return [torch.randn(rows), torch.randn(cols)]


def get_init_inputs():
    return []
