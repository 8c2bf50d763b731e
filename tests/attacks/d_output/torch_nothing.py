# attack: returns nothing
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: INCORRECT RUNTIME
# why: an output is a tensor

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return None
