# attack: takes an attribute that rules look for by a pattern, where it is no attribute of the syntax
# expect: FORBIDDEN
# rule: py_frames
# behind: OK
# harmless: it looks at its caller and computes by itself
# why: names in patterns are read like attributes

import torch


def caller():
    try:
        raise ValueError
    except ValueError as error:
        match error:
            case ValueError(__traceback__=trace):
                match trace:
                    case object(tb_frame=frame):
                        return frame


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return x * self.weight if caller() is not None else torch.zeros_like(x)
