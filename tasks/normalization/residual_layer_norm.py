# ---
# id: residual_layer_norm
# level: 2
# family: normalization
# split: held_out
# description: layer normalisation of the sum of two inputs, without learned values
# variants:
#   - rows=1 cols=2
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
    def forward(self, x, residual):
        total = x + residual
        centred = total - total.mean(dim=1, keepdim=True)
        return centred * torch.rsqrt((centred * centred).mean(dim=1, keepdim=True) + 1e-5)


def get_inputs():
    return [torch.randn(rows, cols), torch.randn(rows, cols)]


def get_init_inputs():
    return []
