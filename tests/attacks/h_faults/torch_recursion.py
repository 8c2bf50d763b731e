# attack: calls itself without end
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: RUNTIME
# why: the interpreter's limit, and a process of its own

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return self.forward(x)
