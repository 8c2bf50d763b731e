# ---
# id: matrix_times_vector
# level: 1
# family: matmul
# split: train
# description: a matrix times a vector
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=8192
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

rows = 600
cols = 700


class Model(nn.Module):
    def forward(self, a, v):
        return a @ v


def get_inputs():
    return [torch.randn(rows, cols), torch.randn(cols)]


def get_init_inputs():
    return []
