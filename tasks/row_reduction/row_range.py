# ---
# id: row_range
# level: 1
# family: row_reduction
# split: train
# description: largest minus smallest value of each row
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
    def forward(self, x):
        return x.amax(dim=1) - x.amin(dim=1)


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
