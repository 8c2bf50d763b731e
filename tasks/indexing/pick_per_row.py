# ---
# id: pick_per_row
# level: 1
# family: indexing
# split: train
# description: for each row, the values at that row's own column indices
# variants:
#   - rows=1 cols=1 picks=1
#   - rows=7 cols=5 picks=3
#   - rows=129 cols=33 picks=17
# timing_gpu: rows=65536 cols=1024 picks=256
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

rows = 800
cols = 300
picks = 40


class Model(nn.Module):
    def forward(self, x, index):
        return torch.gather(x, 1, index)


def get_inputs():
    return [torch.randn(rows, cols), torch.randint(0, cols, (rows, picks))]


def get_init_inputs():
    return []
