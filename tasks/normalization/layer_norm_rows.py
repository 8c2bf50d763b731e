# ---
# id: layer_norm_rows
# level: 1
# family: normalization
# split: train
# description: layer normalisation of each row with learned gain and bias
# variants:
#   - rows=1 cols=2
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, large, sparse]
# ---
import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 600
cols = 500


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(1.0 + 0.3 * torch.randn(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return F.layer_norm(x, (x.shape[1],), self.gain, self.bias, 1e-5)


def get_inputs():
    return [torch.randn(rows, cols) * 2.0 + 0.5]


def get_init_inputs():
    return [cols]
