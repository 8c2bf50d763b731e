# ---
# id: transpose_scaled
# level: 1
# family: layout
# split: train
# description: transposes a matrix and doubles it
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
cols = 700


class Model(nn.Module):
    def forward(self, x):
        return (2.0 * x).t().contiguous()


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
