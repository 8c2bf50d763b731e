# ---
# id: grouped_norm
# level: 2
# family: normalization
# split: train
# description: normalises groups of four channels over their positions, with learned gain and bias
# variants:
#   - batch=1 groups=1 positions=3
#   - batch=3 groups=2 positions=31
#   - batch=2 groups=5 positions=127
# timing_gpu: batch=64 groups=16 positions=4096
# profiles: [as_given, signed_normal, large, sparse]
# ---
import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 8
groups = 6
positions = 400
channels = 4 * groups


class Model(nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.groups = groups
        self.gain = nn.Parameter(1.0 + 0.3 * torch.randn(4 * groups))
        self.bias = nn.Parameter(torch.randn(4 * groups))

    def forward(self, x):
        return F.group_norm(x, self.groups, self.gain, self.bias, 1e-5)


def get_inputs():
    return [torch.randn(batch, channels, positions) * 2.0 + 0.5]


def get_init_inputs():
    return [groups]
