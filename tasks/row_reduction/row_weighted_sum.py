# ---
# id: row_weighted_sum
# level: 1
# family: row_reduction
# split: train
# description: each row's sum under learned column weights
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

rows = 384
cols = 1000


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(features) - 0.5)

    def forward(self, x):
        return (x * self.weight).sum(dim=1)


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return [cols]
