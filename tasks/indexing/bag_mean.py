# ---
# id: bag_mean
# level: 2
# family: indexing
# split: held_out
# description: mean of the learned table's rows that each bag names
# variants:
#   - entries=1 width=1 bags=1 per_bag=1
#   - entries=7 width=5 bags=13 per_bag=3
#   - entries=129 width=33 bags=31 per_bag=5
# timing_gpu: entries=50257 width=512 bags=16384 per_bag=16
# profiles: [as_given]
# ---
import torch
import torch.nn as nn

entries = 700
width = 80
bags = 500
per_bag = 7


class Model(nn.Module):
    def __init__(self, entries, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(entries, width))

    def forward(self, index):
        return self.table[index].mean(dim=1)


def get_inputs():
    return [torch.randint(0, entries, (bags, per_bag))]


def get_init_inputs():
    return [entries, width]
