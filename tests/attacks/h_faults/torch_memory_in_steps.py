# attack: takes memory until there is none
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: OOM RUNTIME TIMEOUT
# lane: cpu
# why: a limit for each process

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        kept = []
        while True:
            kept.append(torch.ones(1 << 26))
