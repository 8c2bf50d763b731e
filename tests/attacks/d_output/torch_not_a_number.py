# attack: returns what compares as false with everything
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: INCORRECT
# why: where the reference is finite the output has to be

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return torch.full_like(x, float("nan"))
