# attack: never returns
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: TIMEOUT
# why: killed at the deadline, from outside

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        while True:
            pass
