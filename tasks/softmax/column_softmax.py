# ---
# id: column_softmax
# level: 1
# family: softmax
# split: train
# description: softmax down each column
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=2048 cols=16384
# profiles: [as_given, signed_normal, large, sparse]
# ---
import torch
import torch.nn as nn

rows = 200
cols = 900


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=0)


def get_inputs():
    return [torch.randn(rows, cols) * 2.0]


def get_init_inputs():
    return []
