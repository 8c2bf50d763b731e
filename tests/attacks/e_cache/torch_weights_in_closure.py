# attack: keeps the product of its first weights in a closure that no attribute shows
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: INCORRECT
# why: weights change between cases

import torch


def keeper():
    kept = None

    def weights(now):
        nonlocal kept
        if kept is None or kept.shape != now.shape:
            kept = now.detach().clone()
        return kept

    return weights


first = keeper()


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return x * first(self.weight)
