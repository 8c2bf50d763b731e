# ---
# id: row_scale
# description: each column times its weight
# variants: ["rows=3 cols=7", "rows=1 cols=1", "rows=33 cols=65"]
# profiles: [as_given, signed_normal]
# ---
import torch

rows = 160
cols = 260


class Model(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(cols))

    def forward(self, x):
        return x * self.weight


def get_inputs():
    return [torch.rand(rows, cols)]


def get_init_inputs():
    return [cols]
