# ---
# id: row_top_four
# level: 2
# family: selection
# split: train
# description: the four largest values of each row, largest first
# variants:
#   - rows=1 cols=4
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=65536 cols=1024
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

rows = 900
cols = 250


class Model(nn.Module):
    def forward(self, x):
        return torch.topk(x, 4, dim=1).values


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
