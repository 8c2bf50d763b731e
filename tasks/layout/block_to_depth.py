# ---
# id: block_to_depth
# level: 2
# family: layout
# split: held_out
# description: moves each 2 x 2 block of pixels into channels
# variants:
#   - batch=1 channels=1 height=1 width=1
#   - batch=2 channels=3 height=5 width=7
#   - batch=3 channels=2 height=17 width=13
# timing_gpu: batch=64 channels=16 height=128 width=130
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

batch = 6
channels = 5
height = 60
width = 70
in_height = 2 * height
in_width = 2 * width
out_channels = 4 * channels


class Model(nn.Module):
    def forward(self, x):
        blocks = x.reshape(x.shape[0], channels, height, 2, width, 2)
        return blocks.permute(0, 3, 5, 1, 2, 4).reshape(x.shape[0], out_channels, height, width)


def get_inputs():
    return [torch.randn(batch, channels, in_height, in_width)]


def get_init_inputs():
    return []
