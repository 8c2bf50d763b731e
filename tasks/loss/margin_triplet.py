# ---
# id: margin_triplet
# level: 2
# family: loss
# split: train
# description: how far the positive is farther than the negative, plus a margin of one, not below zero
# variants:
#   - rows=1 width=1
#   - rows=7 width=13
#   - rows=129 width=257
# timing_gpu: rows=65536 width=512
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

rows = 1500
width = 100


class Model(nn.Module):
    def forward(self, anchor, positive, negative):
        near = torch.sqrt(((anchor - positive) ** 2).sum(dim=1) + 1e-8)
        far = torch.sqrt(((anchor - negative) ** 2).sum(dim=1) + 1e-8)
        return torch.relu(near - far + 1.0)


def get_inputs():
    return [torch.randn(rows, width) for _ in range(3)]


def get_init_inputs():
    return []
