# ---
# id: strided_peak_1d
# level: 1
# family: pooling
# split: train
# description: largest of three neighbours, every second position
# variants:
#   - rows=1 length=3
#   - rows=3 length=17
#   - rows=5 length=128
# timing_gpu: rows=16384 length=4096
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 300
length = 1001


class Model(nn.Module):
    def forward(self, x):
        return F.max_pool1d(x, kernel_size=3, stride=2)


def get_inputs():
    return [torch.randn(rows, length)]


def get_init_inputs():
    return []
