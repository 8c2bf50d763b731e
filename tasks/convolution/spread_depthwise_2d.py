# ---
# id: spread_depthwise_2d
# level: 2
# family: convolution
# split: held_out
# description: each channel's learned 3 x 3 filter with gaps of two, then a rectifier
# variants:
#   - batch=1 channels=1 height=1 width=1
#   - batch=2 channels=3 height=7 width=9
#   - batch=1 channels=5 height=33 width=17
# timing_gpu: batch=32 channels=128 height=112 width=114
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

batch = 4
channels = 16
height = 60
width = 66


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.filter = nn.Conv2d(channels, channels, kernel_size=3, padding=2, dilation=2, groups=channels)

    def forward(self, x):
        return torch.relu(self.filter(x))


def get_inputs():
    return [torch.randn(batch, channels, height, width) * 2.0]


def get_init_inputs():
    return [channels]
