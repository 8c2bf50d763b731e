# ---
# id: sigmoid_blend
# level: 1
# family: fused_chain
# split: train
# description: a gate blends two inputs
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
    def forward(self, x, y, gate):
        weight = torch.sigmoid(gate)
        return weight * x + (1.0 - weight) * y


def get_inputs():
    return [torch.randn(rows, cols) for _ in range(3)]


def get_init_inputs():
    return []
