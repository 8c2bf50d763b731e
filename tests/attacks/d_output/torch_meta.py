# attack: returns a tensor without storage
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: INCORRECT RUNTIME
# why: the output's device is checked

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return torch.empty(x.shape, device="meta")
