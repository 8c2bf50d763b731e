# ---
# id: recorded_rms_norm
# family: normalization
# split: held_out
# description: rows over their root mean square, times weights
# ---
import torch
import torch.nn as nn

rows = 17
cols = 1000


class Model(nn.Module):
    def forward(self, x, w):
        return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-5) * w


def get_inputs():
    return [torch.randn(rows, cols), torch.randn(cols)]


def get_init_inputs():
    return []
