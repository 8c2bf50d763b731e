# attack: reaches a module through another one that happens to have it
# expect: FORBIDDEN
# rule: py_modules
# behind: OK
# harmless: it looks at the table of modules and computes by itself
# why: a name is read from wherever a known module stands in it

import torch

table = torch.sys.modules


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return x * self.weight if table else torch.zeros_like(x)
