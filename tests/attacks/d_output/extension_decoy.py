# attack: calls its extension on a copy and returns what the framework computed
# expect: FORBIDDEN
# rule: library_compute
# lane: cpu
# why: dispatched operators outside the allow-list are counted in every checked call

import torch
from torch.utils.cpp_extension import load_inline

source = r"""
torch::Tensor row_scale(torch::Tensor x, torch::Tensor weight) {
  auto out = torch::empty_like(x);
  const int64_t rows = x.size(0), cols = x.size(1);
  const float* in = x.data_ptr<float>();
  const float* w = weight.data_ptr<float>();
  float* to = out.data_ptr<float>();
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) to[r * cols + c] = in[r * cols + c] * w[c];
  return out;
}
"""
module = load_inline(name="scale", cpp_sources=source, functions=["row_scale"])


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        module.row_scale(x, self.weight)
        return x * self.weight
