"""Losses and gradients of TRL's own GRPO trainer on small batches, in fp64: what trl_losses.json holds.

    pip install trl && python trl_losses.py > trl_losses.json

The trainer's loss is called as it is, on log-probabilities given instead of a model's. What it needs of a trainer besides
is stood in for: one process, no accumulation.
"""

import collections
import json
import types

import torch
import trl
from trl.trainer.grpo_trainer import GRPOTrainer


class Alone:
    num_processes = 1
    sync_gradients = True

    @staticmethod
    def gather(tensor):
        return tensor

    @staticmethod
    def reduce(tensor, reduction):
        return tensor


def batch(seed, lengths):
    generator = torch.Generator().manual_seed(seed)

    def draw(scale, shift=0.0):
        return torch.randn(len(lengths), max(lengths), generator=generator, dtype=torch.float64) * scale + shift

    old = -draw(1.0).abs() - 0.1
    logps = (old + draw(0.35)).clamp(max=-1e-3)
    mask = torch.tensor([[1 if t < length else 0 for t in range(max(lengths))] for length in lengths])
    return {"logps": logps, "old": old, "ref": logps + draw(0.3), "mask": mask,
            "advantages": torch.randn(len(lengths), generator=generator, dtype=torch.float64)}


def loss_of(data, *, loss_type, level="token", low=0.2, high=0.2, beta=0.0, delta=None, longest=32):
    logps = data["logps"].clone().requires_grad_()
    trainer = types.SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *args, **kwargs: (logps, torch.zeros_like(logps), None),
        aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None,
        importance_sampling_level=level, beta=beta, loss_type=loss_type, epsilon_low=low, epsilon_high=high,
        use_vllm=False, model=types.SimpleNamespace(training=True), current_gradient_accumulation_steps=1,
        max_completion_length=longest, accelerator=Alone, _entropy_bonus_enabled=False,
        _metrics={"train": collections.defaultdict(list)},
        args=types.SimpleNamespace(use_bias_correction_kl=False, delta=delta, steps_per_generation=1))
    ones = torch.ones(len(logps), 1, dtype=torch.long)
    loss = GRPOTrainer._compute_loss(trainer, None, {
        "prompt_ids": ones, "prompt_mask": ones, "completion_ids": data["mask"], "completion_mask": data["mask"],
        "advantages": data["advantages"], "old_per_token_logps": data["old"], "ref_per_token_logps": data["ref"],
        "num_items_in_batch": data["mask"].sum()})
    loss.backward()
    return loss.item(), logps.grad


def flat(tensor, mask):
    return [value for row, kept in zip(tensor.tolist(), mask.tolist()) for value, keep in zip(row, kept) if keep]


CASES = {
    "grpo": dict(loss_type="grpo"),
    "grpo with kl": dict(loss_type="grpo", beta=0.04),
    "grpo clipped on two sides": dict(loss_type="grpo", delta=1.5),
    "dr_grpo": dict(loss_type="dr_grpo"),
    "dapo": dict(loss_type="dapo", high=0.28),
    "dapo with kl": dict(loss_type="dapo", high=0.28, beta=0.1),
    "cispo": dict(loss_type="cispo", high=1.3),
    "gspo": dict(loss_type="grpo", level="sequence", low=0.15, high=0.2),
}


def main():
    out = {"trl": trl.__version__, "torch": torch.__version__, "cases": []}
    for name, options in CASES.items():
        for seed, lengths in ((1, [5, 1, 9, 4]), (2, [7, 3])):
            data = batch(seed, lengths)
            loss, gradient = loss_of(data, **options)
            mask = data["mask"]
            out["cases"].append({
                "name": name, "options": options, "lengths": lengths, "advantages": data["advantages"].tolist(),
                "log_probs": flat(data["logps"], mask), "old": flat(data["old"], mask), "reference": flat(data["ref"], mask),
                "loss": loss, "gradient": flat(gradient, mask)})
    cases = ",\n".join("  " + json.dumps(case) for case in out.pop("cases"))
    print(json.dumps(out)[:-1] + ', "cases": [\n' + cases + "\n]}")


if __name__ == "__main__":
    main()
