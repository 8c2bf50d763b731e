# ---
# id: rotary_pairs
# level: 2
# family: broadcast
# split: held_out
# description: rotates each pair (i, i + half) of a vector by an angle of its position
# variants:
#   - batch=1 steps=1 half=1
#   - batch=2 steps=7 half=5
#   - batch=3 steps=33 half=17
# timing_gpu: batch=256 steps=2048 half=64
# profiles: [as_given, signed_normal, small, sparse]
# ---
import torch
import torch.nn as nn

batch = 6
steps = 120
half = 32


class Model(nn.Module):
    def forward(self, x, angle):
        first, second = x[..., :half], x[..., half:]
        cos, sin = torch.cos(angle), torch.sin(angle)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


def get_inputs():
    return [torch.randn(batch, steps, 2 * half), torch.rand(steps, half) * 6.28]


def get_init_inputs():
    return []
