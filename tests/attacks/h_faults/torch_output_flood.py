# attack: prints without end
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: TIMEOUT RUNTIME INCORRECT
# why: what is printed is cut at a fixed size

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        while True:
            print("x" * 65536)
