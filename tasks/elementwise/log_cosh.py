# ---
# id: log_cosh
# level: 1
# family: elementwise
# split: train
# description: log(cosh(x)) without overflow
# variants:
#   - count=1
#   - count=251
#   - count=4099
# timing_gpu: count=67108864
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

count = 400000


class Model(nn.Module):
    def forward(self, x):
        magnitude = x.abs()
        return magnitude + torch.log1p(torch.exp(-2.0 * magnitude)) - 0.6931471805599453


def get_inputs():
    return [torch.randn(count) * 3.0]


def get_init_inputs():
    return []
