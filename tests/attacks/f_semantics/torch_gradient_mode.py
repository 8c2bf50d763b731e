# attack: switches gradients and inference mode on and off for whoever comes after it in this process
# expect: FORBIDDEN
# rule: no_custom_kernel
# behind: OK
# harmless: its process is its own, and it computes
# why: state of the framework is of one process, and a process of one candidate

import torch

torch.set_grad_enabled(True)
torch.autograd.set_detect_anomaly(True)
inference = torch.inference_mode()
inference.__enter__()


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return x * self.weight
