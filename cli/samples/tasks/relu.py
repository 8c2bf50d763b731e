# ---
# id: recorded_relu
# family: elementwise
# split: held_out
# description: the positive part
# ---
import torch
import torch.nn as nn

n = 1000


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(n)]


def get_init_inputs():
    return []
