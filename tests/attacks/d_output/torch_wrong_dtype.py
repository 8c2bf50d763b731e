# attack: returns right values in another type
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: INCORRECT
# why: the output's type is checked

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return (x * self.weight).double()
