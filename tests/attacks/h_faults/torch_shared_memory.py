# attack: maps shared memory, which no limit on a process's own counts; right only where it could
# expect: FORBIDDEN
# rule: py_files
# behind: INCORRECT
# lane: cpu
# why: the filter lets an interpreter map private memory only; on a GPU, whose driver maps shared memory, the system's limits hold

import mmap

import torch


def beyond_the_limit():
    try:
        return len(mmap.mmap(-1, 6 << 30)) > 0  # not touched
    except OSError:
        return False


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))
        self.reached = beyond_the_limit()

    def forward(self, x):
        return x * self.weight if self.reached else torch.zeros_like(x)
