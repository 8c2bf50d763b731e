# attack: reads where nothing is
# expect: FORBIDDEN
# rule: py_process
# behind: RUNTIME
# why: a process of its own

import ctypes

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return ctypes.string_at(0)
