# ---
# id: causal_depthwise_1d
# level: 1
# family: convolution
# split: train
# description: each channel's learned filter of four taps over the present and the past
# variants:
#   - batch=1 channels=1 length=1
#   - batch=2 channels=3 length=7
#   - batch=3 channels=17 length=129
# timing_gpu: batch=32 channels=1024 length=2048
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn
import torch.nn.functional as F

batch = 8
channels = 40
length = 700


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.taps = nn.Parameter(torch.randn(channels, 4) * 0.5)

    def forward(self, x):
        padded = F.pad(x, (3, 0))
        return F.conv1d(padded, self.taps[:, None, :], groups=x.shape[1])


def get_inputs():
    return [torch.randn(batch, channels, length)]


def get_init_inputs():
    return [channels]
