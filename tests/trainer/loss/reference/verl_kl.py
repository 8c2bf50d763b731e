"""verl's own estimators of the divergence from a reference, with their gradients, in fp64: what verl_kl.json holds.

    pip install --no-deps verl && python verl_kl.py > verl_kl.json

The function is taken out of the installed package as it stands there: to import the package whole needs a cluster's worth
of others. TRL has k3 alone; trl_losses.py uses it.
"""

import ast
import importlib.metadata
import importlib.util
import json
import pathlib

import torch


def estimator():
    package = pathlib.Path(importlib.util.find_spec("verl").submodule_search_locations[0])
    source = (package / "trainer/ppo/core_algos.py").read_text()
    function = next(node for node in ast.parse(source).body if getattr(node, "name", "") == "kl_penalty_forward")
    scope = {"torch": torch}
    exec(compile(ast.Module([function], []), "core_algos.py", "exec"), scope)
    return scope["kl_penalty_forward"]


def main():
    kl = estimator()
    generator = torch.Generator().manual_seed(5)
    log_probs = -torch.randn(24, generator=generator, dtype=torch.float64).abs() - 0.05
    reference = log_probs + torch.randn(24, generator=generator, dtype=torch.float64) * 0.6
    out = {"verl": importlib.metadata.version("verl"), "torch": torch.__version__, "log_probs": log_probs.tolist(),
           "reference": reference.tolist()}
    for name in ("k1", "k2", "k3"):
        x = log_probs.clone().requires_grad_()
        value = kl(x, reference, name)
        value.mean().backward()
        out[name] = {"values": value.tolist(), "mean": value.mean().item(), "gradient": x.grad.tolist()}
    print(json.dumps(out))


if __name__ == "__main__":
    main()
