# ---
# id: row_divergence
# level: 2
# family: loss
# split: train
# description: Kullback-Leibler divergence between the distributions that two rows of logits give
# variants:
#   - rows=1 classes=2
#   - rows=7 classes=5
#   - rows=129 classes=257
# timing_gpu: rows=16384 classes=2048
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

rows = 800
classes = 150


class Model(nn.Module):
    def forward(self, p_logits, q_logits):
        log_p = torch.log_softmax(p_logits, dim=1)
        log_q = torch.log_softmax(q_logits, dim=1)
        return (log_p.exp() * (log_p - log_q)).sum(dim=1)


def get_inputs():
    return [torch.randn(rows, classes), torch.randn(rows, classes)]


def get_init_inputs():
    return []
