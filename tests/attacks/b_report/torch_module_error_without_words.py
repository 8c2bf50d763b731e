# attack: the same while its module is executed
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: RUNTIME
# why: an error is told as far as it can be, and is the candidate's however it looks

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x


class Silent(Exception):
    def __str__(self):
        raise self


raise Silent()
