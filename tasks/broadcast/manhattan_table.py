# ---
# id: manhattan_table
# level: 2
# family: broadcast
# split: train
# description: sum of absolute differences between every point and every centre
# variants:
#   - points=1 centres=1 features=1
#   - points=13 centres=7 features=3
#   - points=129 centres=31 features=17
# timing_gpu: points=65536 centres=256 features=16
# profiles: [as_given, signed_normal, large, sparse]
# ---
import torch
import torch.nn as nn

points = 600
centres = 70
features = 24


class Model(nn.Module):
    def forward(self, points, centres):
        return (points[:, None, :] - centres[None, :, :]).abs().sum(dim=-1)


def get_inputs():
    return [torch.randn(points, features), torch.randn(centres, features)]


def get_init_inputs():
    return []
