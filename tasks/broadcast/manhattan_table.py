# ---
# id: manhattan_table
# level: 2
# family: broadcast
# split: train
# description: sum of absolute differences between every point and every centre
# variants:
#   - count=1 clusters=1 features=1
#   - count=13 clusters=7 features=3
#   - count=129 clusters=31 features=17
# timing_gpu: count=65536 clusters=256 features=16
# profiles: [as_given, signed_normal, large, sparse]
# ---
import torch
import torch.nn as nn

count = 600
clusters = 70
features = 24


class Model(nn.Module):
    def forward(self, points, centres):
        return (points[:, None, :] - centres[None, :, :]).abs().sum(dim=-1)


def get_inputs():
    return [torch.randn(count, features), torch.randn(clusters, features)]


def get_init_inputs():
    return []
