# ---
# id: add_transposed
# level: 1
# family: layout
# split: train
# description: adds a matrix and the transpose of another
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
    def forward(self, x, y):
        return x + y.t()


def get_inputs():
    return [torch.randn(rows, cols), torch.randn(cols, rows)]


def get_init_inputs():
    return []
