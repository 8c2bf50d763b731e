# ---
# id: class_cross_entropy
# level: 2
# family: loss
# split: train
# description: cross entropy of each row's logits against its class
# variants:
#   - rows=1 classes=2
#   - rows=7 classes=5
#   - rows=129 classes=257
# timing_gpu: rows=16384 classes=4096
# profiles: [as_given, signed_normal, large, sparse]
# ---
import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 900
classes = 200


class Model(nn.Module):
    def forward(self, logits, label):
        return F.cross_entropy(logits, label, reduction="none")


def get_inputs():
    return [torch.randn(rows, classes) * 2.0, torch.randint(0, classes, (rows,))]


def get_init_inputs():
    return []
