# ---
# id: middle_sum
# level: 2
# family: column_reduction
# split: train
# description: sums a 3-D tensor over its middle dimension
# variants:
#   - outer=1 middle=1 inner=1
#   - outer=3 middle=7 inner=5
#   - outer=5 middle=33 inner=129
# timing_gpu: outer=64 middle=512 inner=2048
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

outer = 24
middle = 120
inner = 130


class Model(nn.Module):
    def forward(self, x):
        return x.sum(dim=1)


def get_inputs():
    return [torch.randn(outer, middle, inner)]


def get_init_inputs():
    return []
