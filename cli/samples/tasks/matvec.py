# ---
# id: recorded_matvec
# family: matmul
# split: held_out
# description: a matrix times a vector
# ---
import torch
import torch.nn as nn

M = 33
K = 300


class Model(nn.Module):
    def forward(self, a, x):
        return a @ x


def get_inputs():
    return [torch.randn(M, K), torch.randn(K)]


def get_init_inputs():
    return []
