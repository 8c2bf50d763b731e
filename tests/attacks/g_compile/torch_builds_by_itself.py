# attack: starts a compiler from within the run
# expect: FORBIDDEN
# rule: py_process
# behind: RUNTIME
# why: the filter lets no process begin

import subprocess

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        subprocess.run(["g++", "--version"], check=True)
        return x * self.weight
