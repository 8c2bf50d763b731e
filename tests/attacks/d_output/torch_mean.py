# attack: returns the mean of the right answer everywhere
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
        return (x * self.weight).mean().expand(x.shape)
