# ---
# id: momentum_update
# level: 2
# family: fused_chain
# split: train
# description: one step of gradient descent with Nesterov momentum, giving new weights and new velocity
# variants:
#   - count=1
#   - count=251
#   - count=4099
# timing_gpu: count=67108864
# profiles: [as_given, signed_normal, large, small, sparse]
# ---
import torch
import torch.nn as nn

count = 300000


class Model(nn.Module):
    def forward(self, weights, velocity, gradient):
        new_velocity = 0.9 * velocity + gradient
        new_weights = weights - 0.1 * (gradient + 0.9 * new_velocity)
        return new_weights, new_velocity


def get_inputs():
    return [torch.randn(count) for _ in range(3)]


def get_init_inputs():
    return []
