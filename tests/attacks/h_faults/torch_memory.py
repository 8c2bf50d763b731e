# attack: asks for more memory than there is
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: OOM RUNTIME
# why: a limit for each process

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return torch.zeros(1 << 42, device=x.device)[: x.numel()].view(x.shape)
