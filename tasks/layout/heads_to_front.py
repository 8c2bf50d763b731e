# ---
# id: heads_to_front
# level: 1
# family: layout
# split: train
# description: moves the head dimension before the step dimension
# variants:
#   - batch=1 steps=1 heads=1 width=1
#   - batch=2 steps=7 heads=3 width=5
#   - batch=3 steps=17 heads=5 width=31
# timing_gpu: batch=32 steps=1024 heads=16 width=128
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

batch = 4
steps = 100
heads = 12
width = 64


class Model(nn.Module):
    def forward(self, x):
        return x.permute(0, 2, 1, 3).contiguous()


def get_inputs():
    return [torch.randn(batch, steps, heads, width)]


def get_init_inputs():
    return []
