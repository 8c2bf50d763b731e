# ---
# id: row_logsumexp
# level: 1
# family: softmax
# split: train
# description: log of the sum of exponentials of each row
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, large, sparse]
# ---
import torch
import torch.nn as nn

rows = 700
cols = 400


class Model(nn.Module):
    def forward(self, x):
        return torch.logsumexp(x, dim=1)


def get_inputs():
    return [torch.randn(rows, cols) * 3.0]


def get_init_inputs():
    return []
