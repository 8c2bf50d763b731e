# ---
# id: tail_sum
# level: 1
# family: scan
# split: held_out
# description: sum of this and all later rows in each column
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=4096 cols=8192
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

rows = 300
cols = 700


class Model(nn.Module):
    def forward(self, x):
        return torch.flip(torch.cumsum(torch.flip(x, dims=[0]), dim=0), dims=[0])


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
