# ---
# id: snake_wave
# level: 1
# family: elementwise
# split: train
# description: x plus a squared sine of it, a periodic activation
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, small, sparse]
# ---
import torch
import torch.nn as nn

rows = 384
cols = 1000


class Model(nn.Module):
    def forward(self, x):
        return x + torch.sin(1.5 * x) ** 2 / 1.5


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
