# ---
# id: column_gram
# level: 2
# family: matmul
# split: train
# description: inner products between all columns of a matrix, divided by the row count
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=67
# timing_gpu: rows=8192 cols=1024
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

rows = 300
cols = 70


class Model(nn.Module):
    def forward(self, x):
        return x.t() @ x / x.shape[0]


def get_inputs():
    return [torch.randn(rows, cols) * (0.5 + torch.rand(cols))]


def get_init_inputs():
    return []
