# ---
# id: low_rank_update
# level: 2
# family: matmul
# split: held_out
# description: adds a learned low-rank linear map of the input to the input
# variants:
#   - rows=1 width=1 rank=1
#   - rows=7 width=13 rank=2
#   - rows=129 width=67 rank=5
# timing_gpu: rows=32768 width=1024 rank=16
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

rows = 400
width = 90
rank = 6


class Model(nn.Module):
    def __init__(self, width, rank):
        super().__init__()
        self.down = nn.Parameter(torch.randn(width, rank) / width**0.5)
        self.up = nn.Parameter(torch.randn(rank, width) / rank**0.5)

    def forward(self, x):
        return x + (x @ self.down) @ self.up


def get_inputs():
    return [torch.randn(rows, width)]


def get_init_inputs():
    return [width, rank]
