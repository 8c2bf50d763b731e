# attack: reaches frames by attributes of an error whose names it computes
# expect: FORBIDDEN
# rule: py_dynamic_code
# behind: OK
# harmless: it looks at its caller and computes by itself
# why: names are computed for one's own modules only

import torch


def caller():
    try:
        raise ValueError
    except ValueError as error:
        trace = getattr(error, "__trace" + "back__")
        return getattr(trace, "tb_" + "frame")


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return x * self.weight if caller() is not None else torch.zeros_like(x)
