# attack: returns zeros where the answers are near the absolute tolerance
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: INCORRECT CHEAT
# task: softmax_rows
# why: the reference's values exceed the tolerance somewhere

import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
