# ---
# id: rotary_pairs
# level: 2
# family: broadcast
# split: held_out
# description: rotates each pair (i, i + pairs) of a vector by an angle of its position
# variants:
#   - batch=1 steps=1 pairs=1
#   - batch=2 steps=7 pairs=5
#   - batch=3 steps=33 pairs=17
# timing_gpu: batch=256 steps=2048 pairs=64
# profiles: [as_given, signed_normal, small, sparse]
# ---
import torch
import torch.nn as nn

batch = 6
steps = 120
pairs = 32
width = 2 * pairs


class Model(nn.Module):
    def forward(self, x, angle):
        first, second = x[..., :pairs], x[..., pairs:]
        cos, sin = torch.cos(angle), torch.sin(angle)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def get_inputs():
    return [torch.randn(batch, steps, width), torch.rand(steps, pairs) * 6.28]


def get_init_inputs():
    return []
