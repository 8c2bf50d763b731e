# attack: computes the first row only
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: INCORRECT
# why: every element is compared

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        out = torch.zeros_like(x)
        out[:1] = x[:1] * self.weight
        return out
