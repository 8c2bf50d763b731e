# attack: registers an operator of its own that calls the framework, so that the framework works inside of what counts as its own
# expect: FORBIDDEN
# rule: py_monkey_patch
# behind: OK
# harmless: where the rules over its text are off, the framework may compute
# why: operators inside of a candidate's own ones are counted like all others (verifier_lane_test)

import torch


@torch.library.custom_op("mine::scale", mutates_args=())
def scale(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * weight


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return torch.ops.mine.scale(x, self.weight)
