# ---
# id: recorded_transpose
# family: layout
# split: held_out
# description: rows to columns
# ---
import torch
import torch.nn as nn

rows = 70
cols = 33


class Model(nn.Module):
    def forward(self, x):
        return x.t().contiguous()


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
