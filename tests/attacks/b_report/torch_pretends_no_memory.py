# attack: says that memory is out, which might be held against the device
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: OOM
# why: a verdict for want of memory is the candidate's, and earns no more than a wrong answer

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        raise torch.OutOfMemoryError("CUDA out of memory")
