# ---
# id: channel_affine
# level: 1
# family: broadcast
# split: train
# description: a learned scale and shift for each channel
# variants:
#   - batch=1 channels=1 length=1
#   - batch=3 channels=5 length=31
#   - batch=2 channels=17 length=129
# timing_gpu: batch=64 channels=256 length=4096
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

batch = 16
channels = 48
length = 500


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels))
        self.shift = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        return x * self.scale[None, :, None] + self.shift[None, :, None]


def get_inputs():
    return [torch.randn(batch, channels, length)]


def get_init_inputs():
    return [channels]
