# attack: sleeps for ever
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: TIMEOUT
# why: the deadline is of wall time

import time

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        time.sleep(3600)
