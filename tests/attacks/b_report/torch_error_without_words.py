# attack: raises an error that raises another one when it is asked for its words
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: RUNTIME
# why: an error is told as far as it can be, and is the candidate's however it looks

import torch


class Silent(Exception):
    def __str__(self):
        raise self


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        raise Silent()
