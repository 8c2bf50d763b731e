# ---
# id: row_argmax
# level: 1
# family: selection
# split: train
# description: column of the largest value of each row
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, large]
# ---
import torch
import torch.nn as nn

rows = 384
cols = 1000


class Model(nn.Module):
    def forward(self, x):
        return torch.argmax(x, dim=1)


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
