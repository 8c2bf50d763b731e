# attack: reaches the interpreter's own functions through the module that a function belongs to
# expect: FORBIDDEN
# rule: py_dynamic_code
# behind: INCORRECT OK
# harmless: it evaluates a sum
# why: the attribute that leads there is refused

import torch

evaluate = vars.__self__.eval


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return evaluate("x * weight", {"x": x, "weight": self.weight})
