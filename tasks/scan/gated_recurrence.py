# ---
# id: gated_recurrence
# level: 2
# family: scan
# split: train
# description: h[t] = g[t] h[t - 1] + x[t] along the steps of each sequence
# variants:
#   - batch=1 steps=1 width=1
#   - batch=2 steps=7 width=13
#   - batch=3 steps=33 width=65
# timing_gpu: batch=64 steps=256 width=1024
# profiles: [as_given]
# ---
import torch
import torch.nn as nn

batch = 12
steps = 48
width = 200


class Model(nn.Module):
    def forward(self, x, gate):
        state = torch.zeros_like(x[:, 0])
        states = []
        for step in range(x.shape[1]):
            state = gate[:, step] * state + x[:, step]
            states.append(state)
        return torch.stack(states, dim=1)


def get_inputs():
    return [torch.randn(batch, steps, width), torch.sigmoid(torch.randn(batch, steps, width))]


def get_init_inputs():
    return []
