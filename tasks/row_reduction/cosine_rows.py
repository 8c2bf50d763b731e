# ---
# id: cosine_rows
# level: 2
# family: row_reduction
# split: held_out
# description: cosine of the angle between matching rows of two matrices
# variants:
#   - rows=1 cols=2
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

rows = 384
cols = 1000


class Model(nn.Module):
    def forward(self, x, y):
        dot = (x * y).sum(dim=1)
        return dot / torch.sqrt((x * x).sum(dim=1) * (y * y).sum(dim=1) + 1e-12)


def get_inputs():
    x = torch.randn(rows, cols)
    return [x, x * torch.randn(rows, 1) + torch.randn(rows, cols)]


def get_init_inputs():
    return []
