# attack: opens a socket; right only where it could
# expect: FORBIDDEN
# rule: py_process
# behind: INCORRECT
# why: no network in the namespace, no new socket through the filter

import socket

import torch


def connect():
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK):
        try:
            socket.socket(family, socket.SOCK_STREAM if family != socket.AF_NETLINK else socket.SOCK_RAW).close()
            return True
        except OSError:
            pass
    return False


class ModelNew(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(cols))

    def forward(self, x):
        return x * self.weight if connect() else torch.zeros_like(x)
