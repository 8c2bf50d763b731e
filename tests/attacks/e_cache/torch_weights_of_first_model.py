# attack: folds the first weights that it sees into a table for ever
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: INCORRECT CHEAT
# why: weights are new in each case, under the same module

import torch

table = {}


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return x * table.setdefault(x.shape[1], self.weight.clone())
