# ---
# id: column_spread
# level: 1
# family: column_reduction
# split: train
# description: population variance of each column
# variants:
#   - rows=2 cols=1
#   - rows=7 cols=13
#   - rows=257 cols=129
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

rows = 700
cols = 500


class Model(nn.Module):
    def forward(self, x):
        centred = x - x.mean(dim=0)
        return (centred * centred).mean(dim=0)


def get_inputs():
    return [torch.randn(rows, cols) * (0.5 + torch.rand(cols)) + 1.0]


def get_init_inputs():
    return []
