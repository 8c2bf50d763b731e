# attack: keeps the result of each input address
# expect: FORBIDDEN
# rule: py_cache
# behind: INCORRECT CHEAT
# why: the same address holds other contents in every round

import torch

kept = {}


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        key = (x.data_ptr(), x.shape)
        if key not in kept:
            kept[key] = x * self.weight
        return kept[key]
