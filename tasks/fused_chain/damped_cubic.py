# ---
# id: damped_cubic
# level: 1
# family: fused_chain
# split: train
# description: a cubic under a Gaussian window
# variants:
#   - count=1
#   - count=251
#   - count=4099
# timing_gpu: count=67108864
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

count = 400000


class Model(nn.Module):
    def forward(self, x):
        return (0.5 * x * x * x - x) * torch.exp(-0.5 * x * x)


def get_inputs():
    return [torch.randn(count) * 1.5]


def get_init_inputs():
    return []
