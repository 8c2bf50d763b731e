# attack: has no kernel at all
# expect: FORBIDDEN CHEAT
# rule: no_custom_kernel
# lane: device
# why: found in the syntax tree; and nothing of the judge is in the process

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(cols))

    def forward(self, x):
        return x * self.weight
