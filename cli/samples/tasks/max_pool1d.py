# ---
# id: recorded_max_pool1d
# family: pooling
# split: held_out
# description: largest value under a moving window
# ---
import torch
import torch.nn as nn

rows = 3
L = 33
K = 3
S = 2
P = 1


class Model(nn.Module):
    def __init__(self, K, S, P):
        super().__init__()
        self.K, self.S, self.P = K, S, P

    def forward(self, x):
        return nn.functional.max_pool1d(x.unsqueeze(1), self.K, self.S, self.P).squeeze(1)


def get_inputs():
    return [torch.randn(rows, L)]


def get_init_inputs():
    return [K, S, P]
