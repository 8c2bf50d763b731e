# ---
# id: recorded_mse_loss
# family: loss
# split: held_out
# description: mean squared difference
# ---
import torch
import torch.nn as nn

n = 1000


class Model(nn.Module):
    def forward(self, x, t):
        return nn.functional.mse_loss(x, t)


def get_inputs():
    return [torch.randn(n), torch.randn(n)]


def get_init_inputs():
    return []
