# ---
# id: edge_strength
# level: 2
# family: stencil
# split: held_out
# description: length of the central-difference gradient, indices wrapped round
# variants:
#   - height=1 width=1
#   - height=7 width=13
#   - height=129 width=65
# timing_gpu: height=8192 width=8190
# profiles: [as_given, signed_normal, large, sparse]
# ---
import torch
import torch.nn as nn

height = 400
width = 500


class Model(nn.Module):
    def forward(self, u):
        dy = 0.5 * (torch.roll(u, -1, 0) - torch.roll(u, 1, 0))
        dx = 0.5 * (torch.roll(u, -1, 1) - torch.roll(u, 1, 1))
        return torch.sqrt(dx * dx + dy * dy + 1e-6)


def get_inputs():
    return [torch.randn(height, width)]


def get_init_inputs():
    return []
