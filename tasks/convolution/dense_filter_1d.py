# ---
# id: dense_filter_1d
# level: 1
# family: convolution
# split: train
# description: a learned filter of five taps from all input to all output channels, without padding
# variants:
#   - batch=1 inputs=1 outputs=1 length=5
#   - batch=2 inputs=3 outputs=5 length=17
#   - batch=3 inputs=7 outputs=2 length=129
# timing_gpu: batch=32 inputs=64 outputs=96 length=4096
# profiles: [as_given, signed_normal, sparse]
# ---
import torch
import torch.nn as nn

batch = 4
inputs = 12
outputs = 14
length = 300


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.filter = nn.Conv1d(inputs, outputs, kernel_size=5)

    def forward(self, x):
        return self.filter(x)


def get_inputs():
    return [torch.randn(batch, inputs, length) * 2.0]


def get_init_inputs():
    return [inputs, outputs]
