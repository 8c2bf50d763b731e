"""Audits task references: would an answer that does no work pass?

usage: audit_worker.py TASKS.jsonl RESULTS.jsonl LIMITS.json

Reads hone's JSON tasks, appends one JSON object per task to RESULTS.jsonl as soon as it is known. The caller watches that
file, ends a worker that takes too long over a task and starts another one behind it (verifier/audit/audit.h).
"""

import ast
import copy
import json
import resource
import sys
import time
import traceback

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

SMALL_OUTPUT = 16  # elements; below, chance passes are likely and more draws are made
SHRINK_FLOOR = 8  # no constant is made smaller than this
BATCH_NAMES = ("batch_size", "batch", "B", "bs", "n_batch", "num_batches")


class Skip(Exception):
    """The task cannot be audited here; the text says why."""


# ---- Modules and their sizes. ----


def top_level_integers(tree):
    """Top-level assignments `name = <whole-number expression>`: name -> the assignment's node."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node
    return found


def load_module(reference, sizes):
    """Runs the module's text with its constants replaced; returns its namespace."""
    tree = ast.parse(reference)
    assignments = top_level_integers(tree)
    for name, value in sizes.items():
        assignments[name].value = ast.copy_location(ast.Constant(value), assignments[name].value)
    namespace = {"__name__": "task"}
    exec(compile(tree, "<task>", "exec"), namespace)
    return namespace


def as_list(values):
    return list(values) if isinstance(values, (list, tuple)) else [values]


def build(namespace, seed):
    torch.manual_seed(seed)
    init = namespace["get_init_inputs"]()
    return namespace["Model"](**init) if isinstance(init, dict) else namespace["Model"](*init)


def draw(namespace, seed):
    torch.manual_seed(seed)
    return as_list(namespace["get_inputs"]())


def forward(model, inputs):
    with torch.no_grad():
        outputs = as_list(model(*[x.clone() if torch.is_tensor(x) else x for x in inputs]))
    if not outputs or not all(torch.is_tensor(y) for y in outputs):
        raise Skip("forward returns something that is no tensor")
    return outputs


# ---- Cost. ----


def tensor_bytes(values):
    return sum(v.numel() * v.element_size() for v in values if torch.is_tensor(v))


def cost(reference, sizes):
    """(operations, bytes of inputs, parameters and outputs), found without running anything."""
    with torch.device("meta"):
        namespace = load_module(reference, sizes)
        inputs = as_list(namespace["get_inputs"]())
        model = build(namespace, 0)
        counter = FlopCounterMode(display=False)
        with counter:
            outputs = forward(model, inputs)
    stored = tensor_bytes(inputs) + tensor_bytes(outputs) + tensor_bytes(model.state_dict().values())
    return max(counter.get_total_flops(), stored // 4), stored


def fits(reference, sizes, limits):
    operations, stored = cost(reference, sizes)
    return operations <= limits["operations"] and stored <= limits["bytes"]


def shrink(reference, limits):
    """Sizes under which the reference is affordable: {} when it is as it stands, batches cut first, then the largest."""
    if fits(reference, {}, limits):
        return {}
    namespace = load_module(reference, {})
    constants = {
        name: namespace[name]
        for name in top_level_integers(ast.parse(reference))
        if isinstance(namespace.get(name), int) and not isinstance(namespace[name], bool)
    }
    sizes = {name: 2 for name in constants if name in BATCH_NAMES and constants[name] > 2}
    stuck = set()
    while True:
        try:
            if fits(reference, sizes, limits):
                return sizes
        except Exception:  # these sizes do not go together
            last = next(reversed(sizes), None)
            if last is None:
                raise
            stuck.add(last)
            del sizes[last]
        choices = {
            name: sizes.get(name, value)
            for name, value in constants.items()
            if name not in stuck and name not in BATCH_NAMES and sizes.get(name, value) >= 2 * SHRINK_FLOOR
        }
        if not choices:
            raise Skip("too large for the limits of operations and memory, and no constant of it can shrink")
        name = max(choices, key=choices.get)
        halved = choices[name] // 2
        sizes.pop(name, None)
        sizes[name] = halved


# ---- Scores. ----


def errors(got, want, tolerance):
    """|got - want| in units of the tolerance, float64; positions where both are NaN or the same infinity count 0."""
    if not want.is_floating_point():
        return (got != want).double() * 1e9
    got, want = got.double(), want.double()
    same = (got == want) | (torch.isnan(got) & torch.isnan(want))
    allowed = tolerance["atol"] + tolerance["rtol"] * want.abs()
    error = torch.where(same, torch.zeros_like(want), (got - want).abs() / allowed)
    return torch.where(torch.isnan(error), torch.full_like(error, 1e9), error)


def share_right(answers, outputs, tolerance):
    """The smallest share of right elements over the outputs; 1.0 means that the answer passes."""
    shares = []
    for answer, output in zip(answers, outputs):
        if answer is None or answer.numel() != output.numel():
            return 0.0
        wrong = int((errors(answer.reshape(output.shape), output, tolerance) > 1.0).sum())
        shares.append(1.0 - wrong / max(1, output.numel()))
    return min(shares)


def filled(outputs, values):
    return [torch.full(y.shape, v, dtype=torch.float64) if y.is_floating_point()
            else torch.full(y.shape, round(v) if v == v and abs(v) < 2**62 else 0, dtype=y.dtype)
            for y, v in zip(outputs, values)]


def finite_mean(tensor):
    values = tensor.double()
    values = values[torch.isfinite(values)]
    return float(values.mean()) if values.numel() else 0.0


def finite_median(tensor):
    values = tensor.double().flatten()
    values = values[torch.isfinite(values)]
    return float(values.median()) if values.numel() else 0.0


def trivial_answers(inputs, outputs, others):
    """What answers without work would return here. `others`: the outputs for another draw of the inputs."""
    floats = [x for x in inputs if torch.is_tensor(x) and x.is_floating_point() and x.numel()]
    answers = {
        "zero": [filled(outputs, [0.0] * len(outputs))],
        "one": [filled(outputs, [1.0] * len(outputs))],
        "constant": [filled(outputs, [finite_mean(y) for y in others]), filled(outputs, [finite_median(y) for y in others])],
        "other_inputs": [others],
        "input_mean": [filled(outputs, [finite_mean(x)] * len(outputs)) for x in floats],
        "identity": [],
    }
    for x in inputs:
        if torch.is_tensor(x) and all(x.numel() == y.numel() for y in outputs):
            answers["identity"].append([x.to(y.dtype) for y in outputs])
    return answers


def spread(outputs, tolerance):
    """Median distance of an output element from its tensor's mean, in tolerances; the least over the outputs."""
    values = []
    for y in outputs:
        if not y.is_floating_point() or y.numel() < 2:
            continue
        y = y.double().flatten()
        y = y[torch.isfinite(y)]
        if y.numel() < 2:
            continue
        distance = (y - y.mean()).abs() / (tolerance["atol"] + tolerance["rtol"] * y.mean().abs())
        values.append(float(distance.median()))
    return min(values) if values else None


# ---- The reference's own error. ----


def in_double(model, inputs):
    doubled = [x.double() if torch.is_tensor(x) and x.is_floating_point() else x for x in inputs]
    return forward(copy.deepcopy(model).double(), doubled)


def own_error(model, inputs, outputs, tolerance):
    """The largest error of the reference against itself in float64, in tolerances."""
    exact = in_double(model, inputs)
    worst = 0.0
    for got, want in zip(outputs, exact):
        if got.numel():
            worst = max(worst, float(errors(got.to(want.dtype), want, tolerance).max()))
    return worst


def redraw(inputs, profile, seed):
    """Inputs of a value profile: base/task.h says what each means."""
    generator = torch.Generator().manual_seed(seed)

    def values(x):
        if not torch.is_tensor(x) or not x.is_floating_point():
            return x
        if profile == "uniform":
            return torch.rand(x.shape, generator=generator).to(x.dtype)
        normal = torch.randn(x.shape, generator=generator)
        if profile == "large":
            normal *= 100.0
        if profile == "small":
            normal *= 1e-3
        if profile == "sparse":
            normal *= (torch.rand(x.shape, generator=generator) < 0.25)
        return normal.to(x.dtype)

    return [values(x) for x in inputs]


def check_profiles(task, reports):
    """Runs every variant on every profile; returns the worst own error and where."""
    worst, where = 0.0, ""
    for sizes in [{}] + task["variants"]:
        namespace = load_module(task["reference"], sizes)
        model, given = build(namespace, 11), draw(namespace, 12)
        for profile in task["profiles"]:
            inputs = given if profile in ("as_given", "special") else redraw(given, profile, 13)
            outputs = forward(model, inputs)
            at = f"{profile} {' '.join(f'{k}={v}' for k, v in sizes.items())}".strip()
            if not all(torch.isfinite(y.double()).all() for y in outputs):
                reports.append(f"not finite on {at}")
            error = own_error(model, inputs, outputs, task["tolerance"])
            if error > worst:
                worst, where = error, at
    return worst, where


# ---- Operations that do no work. ----

# Moving, allocating and filling is no work that a candidate could be spared; nor are views, which their schema tells.
PLUMBING = set(
    """clone copy_ _to_copy detach empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like ones ones_like full
    full_like new_zeros new_ones new_full fill_ zero_ arange lift_fresh cat stack scalar_tensor rand randn randint bernoulli_
    uniform_ normal_ _local_scalar_dense item _unsafe_view unsafe_split""".split()
)


class Inapplicable(Exception):
    """The operation cannot be replaced in this way."""


def computes(operator):
    if operator.namespace != "aten" or operator.name().partition("::")[2].split(".")[0] in PLUMBING:
        return False
    returns = operator._schema.returns
    return bool(returns) and not all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def first_of(result):
    return result[0] if isinstance(result, (tuple, list)) else result


def with_first(result, tensor):
    return type(result)([tensor, *result[1:]]) if isinstance(result, (tuple, list)) else tensor


def left_out(operator, args, kwargs):
    """What comes in goes out: the first argument of the result's shape and type."""
    tensors = [a for a in args if torch.is_tensor(a)]
    if any(a.alias_info is not None and a.alias_info.is_write for a in operator._schema.arguments):
        return tensors[0]
    result = operator(*args, **kwargs)
    for tensor in tensors:
        if torch.is_tensor(first_of(result)) and tensor.shape == first_of(result).shape and tensor.dtype == first_of(result).dtype:
            return with_first(result, tensor.clone())
    raise Inapplicable


def made_up(operator, args, kwargs):
    """Noise of the result's mean and spread in its place."""
    result = operator(*args, **kwargs)
    value = first_of(result)
    if not torch.is_tensor(value) or not value.is_floating_point() or value.numel() < 2 or not torch.isfinite(value).all():
        raise Inapplicable
    deviation = float(value.double().std())
    noise = torch.empty_like(value).normal_(generator=torch.Generator().manual_seed(5))
    noise = noise * (deviation if deviation > 0 else 1.0) + float(value.double().mean())
    if any(a.alias_info is not None and a.alias_info.is_write for a in operator._schema.arguments):
        return value.copy_(noise)
    return with_first(result, noise)


def counts(operator, args):
    """A step of a counter, such as BatchNorm's number of batches: bookkeeping that no answer is made of."""
    writes = any(a.alias_info is not None and a.alias_info.is_write for a in operator._schema.arguments)
    return writes and torch.is_tensor(args[0]) and args[0].dim() == 0 and not args[0].is_floating_point()


class Replaced(TorchDispatchMode):
    """One forward with its operation `number` replaced; -1: none, and they are only counted."""

    def __init__(self, number, how):
        super().__init__()
        self.number, self.how, self.names = number, how, []

    def __torch_dispatch__(self, operator, _, args=(), kwargs=None):
        if not computes(operator) or counts(operator, args):
            return operator(*args, **(kwargs or {}))
        self.names.append(operator.name().partition("::")[2].split(".")[0])
        if len(self.names) - 1 != self.number:
            return operator(*args, **(kwargs or {}))
        return self.how(operator, args, kwargs or {})


def still_right(model, inputs, outputs, tolerance, number, how):
    try:
        with Replaced(number, how):
            answers = forward(model, inputs)
    except Inapplicable:
        return False
    except (RuntimeError, ValueError, IndexError, TypeError):  # what follows cannot live with it
        return False
    return len(answers) == len(outputs) and share_right(answers, outputs, tolerance) == 1.0


def redundant_operations(model, draws, tolerance, seconds):
    """Operations that the reference does and that its answer, at its tolerance, does not need. In words, and how many of all
    were tried before the time was over."""
    count = Replaced(-1, None)
    inputs, outputs = draws[0]
    with count:
        forward(model, inputs)
    found, tried, until = [], 0, time.time() + seconds
    for number, name in enumerate(count.names):
        if time.time() > until:
            break
        tried += 1
        for how, what in ((left_out, "left out"), (made_up, "any values")):
            if all(still_right(model, x, y, tolerance, number, how) for x, y in draws):
                found.append(f"{name} ({number + 1} of {len(count.names)}, {what})")
                break
    return found, tried, len(count.names)


# ---- One task. ----


def audit(task, limits):
    reference, tolerance = task["reference"], task["tolerance"]
    started = time.time()
    try:
        sizes = shrink(reference, limits)
    except Skip:
        raise
    except Exception:
        sizes = {}  # the cost is unknown (an operation without a shape function): the caller's limits stand guard
    namespace = load_module(reference, sizes)
    model = build(namespace, 1)
    inputs = draw(namespace, 2)
    outputs = forward(model, inputs)
    again = forward(model, inputs)
    small = min(y.numel() for y in outputs) < SMALL_OUTPUT
    draws = 12 if small else 4

    passes, nearest = {}, {}
    current, current_outputs = inputs, outputs
    kept = [(inputs, outputs)]
    for number in range(draws):
        other = draw(namespace, 100 + number)
        other_outputs = forward(model, other)
        if len(kept) < 2:
            kept.append((other, other_outputs))
        for name, candidates in trivial_answers(current, current_outputs, other_outputs).items():
            share = max((share_right(c, current_outputs, tolerance) for c in candidates), default=0.0)
            passes[name] = passes.get(name, 0) + (share == 1.0)
            nearest[name] = max(nearest.get(name, 0.0), share)
        current, current_outputs = other, other_outputs

    notes = []
    if share_right(again, outputs, tolerance) < 1.0:
        notes.append("two calls on the same inputs differ")
    if not all(torch.isfinite(y.double()).all() for y in outputs):
        notes.append("not finite")
    try:
        if sizes or not task["variants"]:
            worst, where = own_error(model, inputs, outputs, tolerance), "as_given"
        else:
            worst, where = check_profiles(task, notes)
    except RuntimeError as error:
        if task["variants"]:
            raise
        worst, where = None, f"no float64 run: {str(error).splitlines()[0][:80]}"
    redundant, tried, operations = redundant_operations(model, kept, tolerance, limits["redundancy_s"]) if not notes else ([], 0, 0)
    return {
        "redundant": redundant,
        "operations_tried": tried,
        "operations": operations,
        "draws": draws,
        "passes": passes,
        "nearest": nearest,
        "spread": spread(outputs, tolerance),
        "own_error": worst,
        "own_error_at": where,
        "sizes": sizes,
        "outputs": [list(y.shape) for y in outputs],
        "notes": notes,
        "seconds": time.time() - started,
    }


def limit_memory(extra_bytes):
    """Bounds what this process may still map beyond what importing torch took."""
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + extra_bytes, mapped + extra_bytes))


def first_line(error):
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == "<task>"]
    place = f" (line {frames[-1].lineno} of the module)" if frames else ""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}{place}"[:300]


def main():
    tasks_path, results_path, limits_path = sys.argv[1:4]
    with open(limits_path) as file:
        limits = json.load(file)
    with open(tasks_path) as file:
        tasks = [json.loads(line) for line in file if line.strip()]
    torch.set_num_threads(limits["threads"])
    limit_memory(limits["process_bytes"])
    with open(results_path, "a") as results:
        for task in tasks:
            try:
                result = audit(task, limits)
            except Skip as reason:
                result = {"skipped": str(reason)}
            except MemoryError:
                result = {"skipped": "out of memory"}
            except ModuleNotFoundError as error:
                result = {"skipped": f"needs the Python module {error.name}, which is not installed"}
            except Exception as error:
                text = first_line(error)
                memory = "alloc" in text and "memory" in text
                result = {"skipped" if memory else "error": text}
            results.write(json.dumps({"id": task["id"], **result}) + "\n")
            results.flush()


if __name__ == "__main__":
    main()
