# ---
# id: gelu_gate
# level: 1
# family: fused_chain
# split: train
# description: tanh-approximated GELU of one input gates the other
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given, signed_normal, small, sparse]
# ---
import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 384
cols = 1000


class Model(nn.Module):
    def forward(self, x, gate):
        return x * F.gelu(gate, approximate="tanh")


def get_inputs():
    return [torch.randn(rows, cols), torch.randn(rows, cols)]


def get_init_inputs():
    return []
