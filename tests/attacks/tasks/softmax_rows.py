# ---
# id: softmax_rows
# description: softmax over rows that are long enough for outputs near the absolute tolerance
# variants: ["rows=1 cols=1500", "rows=3 cols=2001"]
# ---
import torch

rows = 12
cols = 3000


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.rand(rows, cols)]


def get_init_inputs():
    return []
