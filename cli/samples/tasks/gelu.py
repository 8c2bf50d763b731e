# ---
# id: recorded_gelu
# family: elementwise
# split: held_out
# description: GELU by the error function
# ---
import torch
import torch.nn as nn

n = 1000


class Model(nn.Module):
    def forward(self, x):
        return nn.functional.gelu(x)


def get_inputs():
    return [torch.randn(n)]


def get_init_inputs():
    return []
