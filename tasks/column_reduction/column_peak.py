# ---
# id: column_peak
# level: 1
# family: column_reduction
# split: held_out
# description: largest absolute value of each column
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

rows = 700
cols = 500


class Model(nn.Module):
    def forward(self, x):
        return x.abs().amax(dim=0)


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
