# ---
# id: gated_mlp
# level: 3
# family: fused_layer
# split: held_out
# description: two linear maps, one gating the other through SiLU, and a third back, with learned weights
# variants:
#   - rows=1 width=1 hidden=1
#   - rows=7 width=5 hidden=13
#   - rows=33 width=17 hidden=67
# timing_gpu: rows=4096 width=1024 hidden=2730
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 60
width = 48
hidden = 80


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def get_inputs():
    return [torch.randn(rows, width) * 3.0]


def get_init_inputs():
    return [width, hidden]
