# attack: raises while it is loaded
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: RUNTIME
# why: told with its line, and no process but its own is hurt

import torch

raise ValueError("not today")


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return x
