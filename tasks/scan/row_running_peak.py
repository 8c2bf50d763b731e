# ---
# id: row_running_peak
# level: 1
# family: scan
# split: train
# description: largest value so far along each row
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=8192 cols=4096
# profiles: [as_given, signed_normal, large, sparse]
# ---
import torch
import torch.nn as nn

rows = 400
cols = 600


class Model(nn.Module):
    def forward(self, x):
        return torch.cummax(x, dim=1).values


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
