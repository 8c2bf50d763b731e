# ---
# id: nearest_centre
# level: 2
# family: selection
# split: held_out
# description: number of the centre with the smallest squared distance to each point
# variants:
#   - count=1 clusters=1 features=1
#   - count=13 clusters=7 features=3
#   - count=129 clusters=31 features=17
# timing_gpu: count=32768 clusters=128 features=32
# profiles: [as_given]
# ---
import torch
import torch.nn as nn

count = 1500
clusters = 30
features = 9


class Model(nn.Module):
    def forward(self, points, centres):
        distance = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(dim=-1)
        return torch.argmin(distance, dim=1)


def get_inputs():
    grid = torch.randint(-20, 21, (count, features)).float()
    centre = torch.randint(-20, 21, (clusters, features)).float()
    return [grid * 0.25, centre * 0.25 + 0.001 * torch.arange(clusters)[:, None]]


def get_init_inputs():
    return []
