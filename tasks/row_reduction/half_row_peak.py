# ---
# id: half_row_peak
# level: 1
# family: row_reduction
# split: train
# dtype: float16
# description: largest absolute value of each half-precision row
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=8192
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

rows = 384
cols = 1000


class Model(nn.Module):
    def forward(self, x):
        return x.abs().amax(dim=1)


def get_inputs():
    return [(torch.randn(rows, cols) * (0.5 + torch.rand(rows, 1))).half()]


def get_init_inputs():
    return []
