# ---
# id: nearest_centre
# level: 2
# family: selection
# split: held_out
# description: number of the centre with the smallest squared distance to each point
# variants:
#   - points=1 centres=1 features=1
#   - points=13 centres=7 features=3
#   - points=129 centres=31 features=17
# timing_gpu: points=32768 centres=128 features=32
# profiles: [as_given]
# ---
import torch
import torch.nn as nn

points = 1500
centres = 30
features = 9


class Model(nn.Module):
    def forward(self, points, centres):
        distance = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(dim=-1)
        return torch.argmin(distance, dim=1)


def get_inputs():
    grid = torch.randint(-20, 21, (points, features)).float()
    centre = torch.randint(-20, 21, (centres, features)).float()
    return [grid * 0.25, centre * 0.25 + 0.001 * torch.arange(centres)[:, None]]


def get_init_inputs():
    return []
