# attack: is right for the task's own shape only
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: INCORRECT
# why: hidden shapes

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return x * self.weight if x.shape == (160, 260) else torch.zeros_like(x)
