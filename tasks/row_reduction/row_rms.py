# ---
# id: row_rms
# level: 1
# family: row_reduction
# split: held_out
# description: root of the mean square of each row
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

rows = 384
cols = 1000


class Model(nn.Module):
    def forward(self, x):
        return torch.sqrt((x * x).mean(dim=1))


def get_inputs():
    return [torch.randn(rows, cols) * (0.5 + torch.rand(rows, 1))]


def get_init_inputs():
    return []
