# ---
# id: bin_counts
# level: 1
# family: indexing
# split: train
# description: how often each bin number occurs
# variants:
#   - items=1 bins=1
#   - items=13 bins=7
#   - items=4099 bins=257
# timing_gpu: items=33554432 bins=256
# profiles: [as_given]
# ---
import torch
import torch.nn as nn

items = 200000
bins = 64


class Model(nn.Module):
    def forward(self, bin):
        return torch.bincount(bin, minlength=bins)


def get_inputs():
    weights = torch.rand(bins) + 0.05
    return [torch.multinomial(weights, items, replacement=True)]


def get_init_inputs():
    return []
