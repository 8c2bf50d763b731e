# ---
# id: causal_softmax
# level: 2
# family: softmax
# split: held_out
# description: softmax of attention scores where a query sees its own and earlier keys
# variants:
#   - heads=1 queries=1
#   - heads=3 queries=7
#   - heads=2 queries=67
# timing_gpu: heads=64 queries=1024
# profiles: [as_given, signed_normal, large, sparse]
# ---
import torch
import torch.nn as nn

heads = 10
queries = 150


class Model(nn.Module):
    def forward(self, scores):
        hidden = torch.triu(torch.ones(queries, queries, dtype=torch.bool, device=scores.device), diagonal=1)
        return torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1)


def get_inputs():
    return [torch.randn(heads, queries, queries) * 2.0]


def get_init_inputs():
    return []
