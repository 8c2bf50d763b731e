# ---
# id: recorded_softmax
# family: softmax
# split: held_out
# description: softmax of each row
# ---
import torch
import torch.nn as nn

rows = 17
cols = 1000


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1)


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
