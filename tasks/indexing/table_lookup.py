# ---
# id: table_lookup
# level: 1
# family: indexing
# split: train
# description: rows of a learned table by index
# variants:
#   - entries=1 width=1 count=1
#   - entries=7 width=5 count=13
#   - entries=129 width=33 count=257
# timing_gpu: entries=50257 width=1024 count=16384
# profiles: [as_given]
# ---
import torch
import torch.nn as nn

entries = 900
width = 96
count = 3000


class Model(nn.Module):
    def __init__(self, entries, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(entries, width))

    def forward(self, index):
        return self.table[index]


def get_inputs():
    return [torch.randint(0, entries, (count,))]


def get_init_inputs():
    return [entries, width]
