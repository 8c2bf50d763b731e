# ---
# id: row_sorted
# level: 2
# family: selection
# split: train
# description: sorts each short row upwards
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=67
# timing_gpu: rows=262144 cols=128
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

rows = 2000
cols = 60


class Model(nn.Module):
    def forward(self, x):
        return torch.sort(x, dim=1).values


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
