# ---
# id: half_leaky_scale
# level: 1
# family: elementwise
# split: train
# dtype: float16
# description: leaky slope and a gain in half precision
# variants:
#   - count=1
#   - count=251
#   - count=4099
# timing_gpu: count=134217728
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

count = 400000


class Model(nn.Module):
    def forward(self, x):
        return torch.where(x > 0, x, 0.1 * x) * 1.5


def get_inputs():
    return [torch.randn(count).half()]


def get_init_inputs():
    return []
