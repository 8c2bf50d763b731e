# ---
# id: dense_filter_2d
# level: 1
# family: convolution
# split: train
# description: a learned 3 x 3 filter with bias that keeps the image size
# variants:
#   - batch=1 inputs=1 outputs=1 height=1 width=1
#   - batch=2 inputs=3 outputs=5 height=7 width=9
#   - batch=1 inputs=4 outputs=3 height=33 width=17
# timing_gpu: batch=32 inputs=32 outputs=48 height=128 width=130
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

batch = 3
inputs = 6
outputs = 8
height = 40
width = 44


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.filter = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1)

    def forward(self, x):
        return self.filter(x)


def get_inputs():
    return [torch.randn(batch, inputs, height, width) * 2.0]


def get_init_inputs():
    return [inputs, outputs]
