# ---
# id: mean_absolute_error
# level: 1
# family: loss
# split: train
# description: mean absolute difference of prediction and target, one number
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given]
# ---
import torch
import torch.nn as nn

rows = 384
cols = 1000


class Model(nn.Module):
    def forward(self, prediction, target):
        return (prediction - target).abs().mean()


def get_inputs():
    scale = 0.5 + 2.0 * torch.rand(1)
    return [torch.randn(rows, cols) * scale, torch.randn(rows, cols) * scale]


def get_init_inputs():
    return []
