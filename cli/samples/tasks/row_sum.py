# ---
# id: recorded_row_sum
# family: row_reduction
# split: held_out
# description: sum of each row
# ---
import torch
import torch.nn as nn

rows = 17
cols = 1000


class Model(nn.Module):
    def forward(self, x):
        return x.sum(1)


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
