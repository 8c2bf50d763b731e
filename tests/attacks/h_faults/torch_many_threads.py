# attack: starts threads without end
# expect: FORBIDDEN
# rule: py_process
# behind: RUNTIME OOM
# why: the filter lets no thread begin on the CPU device; on a GPU those that a driver may need are limited

import threading
import time

import torch

for _ in range(100_000):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return x * self.weight
