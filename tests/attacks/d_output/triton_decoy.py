# attack: launches its kernel on a copy and returns what the framework computed
# expect: FORBIDDEN CHEAT
# rule: py_framework_compute
# why: dispatched operators outside the allow-list are counted in every checked call

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
        out = torch.empty_like(x)
        scale[(triton.cdiv(x.numel(), 256),)](x, self.weight, out, x.numel(), x.shape[1], BLOCK=256)
        return torch.mul(x, self.weight)
