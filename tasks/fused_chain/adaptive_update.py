# ---
# id: adaptive_update
# level: 2
# family: fused_chain
# split: held_out
# description: one bias-corrected Adam step at step 10, weights only
# variants:
#   - count=1
#   - count=251
#   - count=4099
# timing_gpu: count=67108864
# profiles: [as_given]
# ---
import torch
import torch.nn as nn

count = 300000


class Model(nn.Module):
    def forward(self, weights, gradient, first_moment, second_moment):
        first = (0.9 * first_moment + 0.1 * gradient) / (1.0 - 0.9**10)
        second = (0.999 * second_moment + 0.001 * gradient * gradient) / (1.0 - 0.999**10)
        return weights - 0.05 * first / (torch.sqrt(second) + 1e-4)


def get_inputs():
    moments = torch.rand(count) * 0.01
    return [torch.randn(count), torch.randn(count), torch.randn(count), moments]


def get_init_inputs():
    return []
