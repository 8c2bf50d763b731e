# ---
# id: window_mean_2d
# level: 1
# family: pooling
# split: train
# description: mean of each 4 x 4 window, the last incomplete ones dropped
# variants:
#   - images=1 height=4 width=4
#   - images=2 height=7 width=13
#   - images=3 height=33 width=65
# timing_gpu: images=512 height=256 width=260
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn
import torch.nn.functional as F

images = 20
height = 122
width = 131


class Model(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, kernel_size=4)


def get_inputs():
    return [torch.randn(images, height, width)]


def get_init_inputs():
    return []
