# ---
# id: focal_binary
# level: 2
# family: loss
# split: held_out
# description: focal loss with exponent two of each logit against a 0/1 target
# variants:
#   - rows=1 cols=1
#   - rows=7 cols=13
#   - rows=129 cols=257
# timing_gpu: rows=16384 cols=4096
# profiles: [as_given]
# ---
import torch
import torch.nn as nn
import torch.nn.functional as F

rows = 384
cols = 1000


class Model(nn.Module):
    def forward(self, logit, target):
        entropy = F.binary_cross_entropy_with_logits(logit, target, reduction="none")
        probability = torch.sigmoid(logit)
        miss = probability + target - 2.0 * probability * target
        return miss * miss * entropy


def get_inputs():
    return [torch.randn(rows, cols) * 2.0, torch.randint(0, 2, (rows, cols)).float()]


def get_init_inputs():
    return []
