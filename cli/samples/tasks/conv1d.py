# ---
# id: recorded_conv1d
# family: convolution
# split: held_out
# description: cross-correlation without padding
# ---
import torch
import torch.nn as nn

B = 2
Cin = 3
Cout = 4
L = 33
K = 5


class Model(nn.Module):
    def forward(self, x, w):
        return nn.functional.conv1d(x, w)


def get_inputs():
    return [torch.randn(B, Cin, L), torch.randn(Cout, Cin, K)]


def get_init_inputs():
    return []
