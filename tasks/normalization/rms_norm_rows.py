# ---
# id: rms_norm_rows
# level: 1
# family: normalization
# split: train
# description: divides each row by its root mean square and applies a learned gain
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, large, sparse]
# ---
import torch
import torch.nn as nn

rows = 600
cols = 500


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gain = nn.Parameter(1.0 + 0.3 * torch.randn(features))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(dim=1, keepdim=True) + 1e-5) * self.gain


def get_inputs():
    return [torch.randn(rows, cols) * 2.0]


def get_init_inputs():
    return [cols]
