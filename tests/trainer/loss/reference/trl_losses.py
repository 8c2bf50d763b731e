"""Losses and gradients of TRL's and transformers' own trainers on small batches, in fp64: what trl_losses.json holds.

    pip install trl && python trl_losses.py > trl_losses.json

The trainers' losses are called as they are, on log-probabilities given instead of a model's. What they need of a
trainer besides is stood in for: one process, no accumulation. Transformers' loss of a language model gets logits.
"""

import collections
import json
import types

import torch
import transformers
import trl
from transformers.loss.loss_utils import ForCausalLMLoss
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.sft_trainer import SFTTrainer


class Alone:
    num_processes = 1
    parallelism_config = None
    sync_gradients = True

    @staticmethod
    def gather_for_metrics(tensor):
        return tensor

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


def sft_loss_of(loss_type, data):
    logps = (data["logps"] * data["mask"]).requires_grad_()  # zero on ignored positions, as the trainer's model has it
    trainer = types.SimpleNamespace(
        model=types.SimpleNamespace(training=False), aux_loss_enabled=False, accelerator=Alone, compute_loss_func=None,
        label_smoother=None, _total_train_tokens=0, _metrics={"eval": collections.defaultdict(list)},
        args=types.SimpleNamespace(loss_type=loss_type, average_tokens_across_devices=False))
    nothing = torch.zeros(1)
    outputs = types.SimpleNamespace(log_probs=logps, label_mask=data["mask"], entropy=nothing, is_top1=nothing)
    loss = SFTTrainer.compute_loss(trainer, lambda **inputs: outputs, {"labels": None})
    loss.backward()
    return loss.item(), logps.grad


def language_model_case(seed, tokens=9, width=6, vocabulary=13):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, width, generator=generator, dtype=torch.float64).requires_grad_()
    weight = torch.randn(vocabulary, width, generator=generator, dtype=torch.float64).requires_grad_()
    ids = torch.randint(0, vocabulary, (tokens,), generator=generator)
    labels = ids.clone()
    labels[:4] = -100  # the prompt
    # The loss brings logits to fp32: given as such, so that nothing is lost on the way.
    loss = ForCausalLMLoss((hidden @ weight.T).float().unsqueeze(0), labels.unsqueeze(0), vocabulary)
    loss.backward()
    return {"hidden": hidden.tolist(), "weight": weight.tolist(), "ids": ids.tolist(), "prompt": 4, "loss": loss.item(),
            "hidden_gradient": hidden.grad.tolist(), "weight_gradient": weight.grad.tolist()}


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
    out = {"trl": trl.__version__, "transformers": transformers.__version__, "torch": torch.__version__, "cases": []}
    out["language_model"] = language_model_case(3)
    out["sft"] = []
    for loss_type in ("nll", "dft"):
        data = batch(4, [6, 2, 8])
        loss, gradient = sft_loss_of(loss_type, data)
        out["sft"].append({"loss_type": loss_type, "log_probs": flat(data["logps"], data["mask"]), "loss": loss,
                           "gradient": flat(gradient, data["mask"])})
    for name, options in CASES.items():
        for seed, lengths in ((1, [5, 1, 9, 4]), (2, [7, 3])):
            data = batch(seed, lengths)
            loss, gradient = loss_of(data, **options)
            mask = data["mask"]
            out["cases"].append({
                "name": name, "options": options, "lengths": lengths, "advantages": data["advantages"].tolist(),
                "log_probs": flat(data["logps"], mask), "old": flat(data["old"], mask),
                "reference": flat(data["ref"], mask),
                "loss": loss, "gradient": flat(gradient, mask)})
    cases = ",\n".join("  " + json.dumps(case) for case in out.pop("cases"))
    print(json.dumps(out)[:-1] + ', "cases": [\n' + cases + "\n]}")


if __name__ == "__main__":
    main()
