# attack: launches a single block
# expect: INCORRECT
# behind: INCORRECT
# why: every element is compared

import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, weight, out, n, cols, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * tl.load(weight + i % cols, mask=i < n), mask=i < n)


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        out = torch.zeros_like(x)
        scale[(1,)](x, self.weight, out, x.numel(), x.shape[1], BLOCK=256)
        return out
