# attack: returns the first result for ever
# expect: INCORRECT CHEAT
# why: contents are new in every call

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
        self.weight = torch.nn.Parameter(torch.randn(cols))

    def forward(self, x):
        if getattr(self, "kept", None) is None or self.kept.shape != x.shape:
            self.kept = torch.empty_like(x)
            scale[(triton.cdiv(x.numel(), 256),)](x, self.weight, self.kept, x.numel(), x.shape[1], BLOCK=256)
        return self.kept
