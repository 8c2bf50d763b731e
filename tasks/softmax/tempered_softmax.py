# ---
# id: tempered_softmax
# level: 1
# family: softmax
# split: train
# description: softmax of each row at temperature 0.5
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=2048
# profiles: [as_given, signed_normal, large, sparse]
# ---
import torch
import torch.nn as nn

rows = 700
cols = 300


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x / 0.5, dim=1)


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
