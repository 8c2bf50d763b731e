# attack: raises an error whose type's name, words and trace are not what such things are
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: RUNTIME
# why: an error is told as far as it can be, and is the candidate's however it looks

import torch

Odd = type("a\n{}%s" * 1000, (Exception,), {"__str__": lambda self: "\ud800\x00" * 100000, "with_traceback": None})


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        raise Odd() from Odd()
