# ---
# id: bucket_sum
# level: 2
# family: indexing
# split: train
# description: adds each row to the bucket that its index names
# variants:
#   - items=1 width=1 buckets=1
#   - items=13 width=5 buckets=3
#   - items=257 width=33 buckets=17
# timing_gpu: items=262144 width=128 buckets=1024
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

items = 2500
width = 60
buckets = 50


class Model(nn.Module):
    def forward(self, x, bucket):
        total = torch.zeros(buckets, x.shape[1], dtype=x.dtype, device=x.device)
        return total.index_add(0, bucket, x)


def get_inputs():
    return [torch.randn(items, width), torch.randint(0, buckets, (items,))]


def get_init_inputs():
    return []
