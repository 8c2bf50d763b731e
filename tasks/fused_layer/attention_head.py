# ---
# id: attention_head
# level: 3
# family: fused_layer
# split: train
# description: scaled dot-product attention of one batch of heads
# variants:
#   - heads=1 queries=1 keys=1 width=1
#   - heads=2 queries=5 keys=7 width=3
#   - heads=3 queries=17 keys=33 width=13
# timing_gpu: heads=64 queries=512 keys=500 width=64
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

heads = 6
queries = 50
keys = 60
width = 24


class Model(nn.Module):
    def forward(self, query, key, value):
        scores = query @ key.transpose(1, 2) / width**0.5
        return torch.softmax(scores, dim=-1) @ value


def get_inputs():
    return [
        torch.randn(heads, queries, width),
        torch.randn(heads, keys, width),
        torch.randn(heads, keys, width),
    ]


def get_init_inputs():
    return []
