# ---
# id: recorded_saxpy
# family: elementwise
# split: held_out
# description: a scaled vector plus another
# ---
import torch
import torch.nn as nn

n = 1000


class Model(nn.Module):
    def forward(self, x, y, a):
        return a * x + y


def get_inputs():
    return [torch.randn(n), torch.randn(n), 1.7]


def get_init_inputs():
    return []
