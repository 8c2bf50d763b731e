# ---
# id: padded_peak_2d
# level: 2
# family: pooling
# split: held_out
# description: largest of each pixel's 3 x 3 neighbourhood, borders included
# variants:
#   - images=1 height=1 width=1
#   - images=2 height=7 width=13
#   - images=3 height=33 width=65
# timing_gpu: images=512 height=256 width=260
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn
import torch.nn.functional as F

images = 20
height = 120
width = 130


class Model(nn.Module):
    def forward(self, x):
        return F.max_pool2d(x, kernel_size=3, stride=1, padding=1)


def get_inputs():
    return [torch.randn(images, height, width)]


def get_init_inputs():
    return []
