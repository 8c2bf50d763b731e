# ---
# id: image_mean
# level: 1
# family: pooling
# split: train
# description: mean of each channel over all pixels
# variants:
#   - batch=1 channels=1 height=1 width=1
#   - batch=2 channels=3 height=5 width=7
#   - batch=3 channels=17 height=31 width=9
# timing_gpu: batch=128 channels=256 height=56 width=57
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

batch = 12
channels = 30
height = 34
width = 33


class Model(nn.Module):
    def forward(self, x):
        return x.mean(dim=(2, 3))


def get_inputs():
    return [torch.randn(batch, channels, height, width) + torch.randn(batch, channels, 1, 1)]


def get_init_inputs():
    return []
