# ---
# id: huber_map
# level: 1
# family: elementwise
# split: train
# description: quadratic near zero, linear beyond 0.75, of each element
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

rows = 384
cols = 1000


class Model(nn.Module):
    def forward(self, x):
        magnitude = x.abs()
        return torch.where(magnitude < 0.75, 0.5 * x * x, 0.75 * (magnitude - 0.375))


def get_inputs():
    return [torch.randn(rows, cols)]


def get_init_inputs():
    return []
