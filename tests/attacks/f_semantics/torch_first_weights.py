# attack: takes the weights for ones, as an untrained layer may have them
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: INCORRECT
# why: weights are drawn anew

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return x + 0 * self.weight
