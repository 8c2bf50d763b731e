# ---
# id: batched_products
# level: 1
# family: matmul
# split: held_out
# description: an independent matrix product for each batch entry
# variants:
#   - batch=1 m=1 n=1 k=1
#   - batch=3 m=7 n=5 k=2
#   - batch=2 m=33 n=17 k=65
# timing_gpu: batch=128 m=256 n=250 k=128
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

batch = 12
m = 40
n = 50
k = 45


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(batch, m, k), torch.randn(batch, k, n)]


def get_init_inputs():
    return []
