# attack: hands getattr on as a value, so that no call of it can be read
# expect: FORBIDDEN
# rule: py_dynamic_code
# behind: OK
# harmless: it finds a module and computes by itself
# why: getattr, setattr and delattr are called or not named at all

import torch

(found,) = map(getattr, [torch], ["s" + "ys"])


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return x * self.weight if found is not None else torch.zeros_like(x)
