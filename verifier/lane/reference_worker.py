"""The lane's reference worker: runs PyTorch references of tasks for the judge (see reference_worker.h).

Speaks over the stream socket on descriptor 3. A frame is two little-endian uint32 (bytes of JSON, number of descriptors)
and the JSON; descriptors travel with the frame's header. One request, one reply:

  {"op": "describe", "source", "dtype", "points": [sizes, ...]}         -> {"tensors", "sizes", "scalars"}
  {"op": "plan", "source", "dtype", "sizes"}                            -> {"tensors", "scalars", "recipe"}
  {"op": "fill", "pool", "source", "dtype", "sizes", "profile", "keep", "first_set", "set_bytes", "offsets", "bytes",
   "seeds", "parameter_seeds", "memory_bytes"}  with the pool's memory as descriptor   -> {}
  {"op": "time", "pool", "warm", "sets", "copies", "events"}                         -> {"call_ns", "copy_ns": [of each set]}
  {"op": "release", "pool"}                                             -> {}

A reply has "ok": true, or false with "message" and "line" (of the module, 0: unknown) when the task itself is at fault.
Sets lie in the pool's memory `set_bytes` apart; `offsets` and `bytes` have one entry for each input, parameter and output. On the CPU
times are processor time of this thread; `copy_ns` is that of copying a call's outputs into memory that is there already.
`warm` sets run first and untimed.

With --device cuda or musa references run there (musa needs torch_musa), the pool's memory is an allocation of the device, and expected values never leave
it: inputs are drawn and outputs written where the judge compares them. A call's time is then the mean over the sets.

A recipe tells the runner of a Python candidate (verifier/runner/torch_runner.py) how a module is made and called: the text
of a Python literal, "" where the task needs more than literals can say:

  {"init": (args, kwargs) of Model, "dtype": of its floating-point parameters,
   "forward": [("tensor", index) or ("value", number)], "state": [(name in the state dict, index)], "outputs": [index],
   "strides": {index: strides of an input that is not contiguous}}
"""

import array
import ast
import contextlib
import copy
import ctypes
import gc
import importlib
import inspect
import itertools
import json
import keyword
import linecache
import math
import mmap
import os
import random
import re
import signal
import socket
import struct
import sys
import time
import traceback
import types
import warnings

import torch
import torch.utils.dlpack

try:
    import numpy
except ImportError:  # torch works without it, and so do most tasks
    numpy = None

DEVICE = torch.device("cpu")  # where references run; set once by main
SOCKET_FD = 3
HEADER = struct.Struct("<II")
MODULE_FILE = "<task>"
PERTURBATION_SECONDS = 10
EXACT_ELEMENTS = 1 << 22  # of outputs whose error is measured
EXACT_SECONDS = 0.5  # of one call whose error is measured
KEPT_BYTES = 4 << 30  # of a device's memory, by torch's allocator
COPIES = 16  # of a call's outputs, to learn what one costs a device

DTYPES = {
    name: getattr(torch, name)
    for name in ("float32", "float16", "bfloat16", "float64", "int32", "int64", "int8", "uint8", "bool")
}
DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}

# Words that cannot name an argument of `launch`: C++'s, CUDA's and those that the glue uses itself.
RESERVED = set(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
    new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires return
    short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef
    typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq stream launch blockIdx blockDim
    threadIdx gridDim warpSize dim3 half float2 float3 float4 int2 int3 int4 min max abs exp log sqrt pow sin cos tan tanh
    main size_t int8_t uint8_t int16_t int32_t int64_t""".split()
)


class TaskError(Exception):
    """The task's module is unusable; `line` counts from 1, 0 where no line is to blame."""

    def __init__(self, message, line=0):
        super().__init__(message)
        self.line = line


def line_of(error):
    """The innermost line of the task's module on the error's way, or 0."""
    if isinstance(error, SyntaxError):
        return error.lineno or 0
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == MODULE_FILE]
    return lines[-1] if lines else 0


def blame(what, error):
    """`error`, raised by the module while doing `what`, as a TaskError."""
    if isinstance(error, TaskError):
        return error
    first_line = (str(error).strip() or "no message").splitlines()[0][:300]
    return TaskError(f"{what} raised {type(error).__name__}: {first_line}", line_of(error))


# ---- Loading a module with its constants replaced. ----


def constant_targets(statement):
    """(name, value node, setter) of each name that a top-level statement assigns by itself or as part of a tuple."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None:
        yield statement.target.id, lambda node: setattr(statement, "value", node)
    if not isinstance(statement, ast.Assign):
        return
    for target in statement.targets:
        if isinstance(target, ast.Name):
            yield target.id, lambda node: setattr(statement, "value", node)
        elif isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            if len(target.elts) != len(statement.value.elts):
                continue
            for position, element in enumerate(target.elts):
                if isinstance(element, ast.Name):
                    yield element.id, lambda node, at=position: statement.value.elts.__setitem__(at, node)


class Reference:
    """One task's module at one choice of its constants."""

    def __init__(self, source, sizes, dtype):
        self.dtype = DTYPES[dtype]
        self.mutates = None  # whether forward changes its inputs; unknown until the first real call
        try:
            tree = ast.parse(source, MODULE_FILE)
        except (SyntaxError, ValueError) as error:
            raise blame("the module", error) from None
        self.assigned = []  # names assigned at the top level, in order
        missing = set(sizes)
        for statement in tree.body:
            for name, replace in constant_targets(statement):
                if name not in self.assigned:
                    self.assigned.append(name)
                if name in sizes:
                    replace(ast.copy_location(ast.Constant(sizes[name]), statement))
                    missing.discard(name)
        if missing:
            raise TaskError(f"a shape names `{sorted(missing)[0]}`, which the module does not assign at its top level")
        linecache.cache[MODULE_FILE] = (len(source), None, source.splitlines(True), MODULE_FILE)
        module = types.ModuleType("hone_task")
        module.__file__ = MODULE_FILE
        sys.modules["hone_task"] = module  # pickling, dataclasses and torch.compile look their module up
        try:
            exec(compile(ast.fix_missing_locations(tree), MODULE_FILE, "exec"), module.__dict__)
        except Exception as error:
            raise blame("the module", error) from None
        for name in ("Model", "get_inputs"):
            if not callable(getattr(module, name, None)):
                raise TaskError(f"the module lacks `{name}`")
        self.module = module

    def constants(self):
        """The module's own integers by name, in the order of the text."""
        values = {name: getattr(self.module, name, None) for name in self.assigned}
        return {name: value for name, value in values.items() if type(value) is int}

    def init_inputs(self):
        make = getattr(self.module, "get_init_inputs", lambda: [])
        try:
            values = make()
        except Exception as error:
            raise blame("get_init_inputs", error) from None
        if not isinstance(values, (list, tuple)):
            raise TaskError(f"get_init_inputs returns {type(values).__name__}, not a list")
        # Some modules return [args, kwargs], as KernelBench's loader accepts.
        if len(values) == 2 and isinstance(values[0], (list, tuple)) and isinstance(values[1], dict):
            return list(values[0]), dict(values[1])
        return list(values), {}

    def build(self, seed):
        """A Model with the weights that `seed` gives."""
        seed_everything(seed)
        args, kwargs = self.init_inputs()
        try:
            with made_on_device():
                model = self.module.Model(*args, **kwargs)
        except Exception as error:
            raise blame("Model(...)", error) from None
        if not callable(model):
            raise TaskError("Model is not callable")
        if isinstance(model, torch.nn.Module):
            if self.dtype is not torch.float32:
                model = model.to(self.dtype)
            if DEVICE.type != "cpu" and not any(tensor.is_meta for _, tensor in self.tensors_of(model)):
                model = model.to(DEVICE)
        return model

    def draw(self, seed, profile="as_given"):
        """The arguments of one forward call."""
        seed_everything(seed)
        try:
            with made_on_device():
                values = self.module.get_inputs()
        except Exception as error:
            raise blame("get_inputs", error) from None
        if not isinstance(values, (list, tuple)):
            raise TaskError(f"get_inputs returns {type(values).__name__}, not a list")
        return [self.argument(position, value, profile) for position, value in enumerate(values)]

    def argument(self, position, value, profile):
        if isinstance(value, torch.Tensor):
            if value.dtype not in DTYPE_NAMES and not value.is_floating_point():
                raise TaskError(f"input {position} of get_inputs has the unsupported dtype {value.dtype}")
            value = value.detach()
            if DEVICE.type != "cpu" and not value.is_meta:
                value = value.to(DEVICE)
            if value.is_floating_point():
                if profile != "as_given":
                    value = redraw(value, profile)
                if self.dtype is not torch.float32 or value.dtype not in DTYPE_NAMES:
                    value = value.to(self.dtype)
            return value
        if isinstance(value, (bool, int, float)):
            return value
        raise TaskError(f"input {position} of get_inputs is a {type(value).__name__}, not a tensor or a number")

    def call(self, model, args):
        """Outputs of forward, flat."""
        try:
            result = model(*args)
        except Exception as error:
            raise blame("Model.forward", error) from None
        return flatten(result)

    def tensors_of(self, model):
        """(name, tensor) of parameters and buffers in state-dict order."""
        if not isinstance(model, torch.nn.Module):
            return []
        return [(name, value) for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)]


def made_on_device():
    """Tensors that a module makes without naming a place are made where references run, unless they are only traced."""
    traced = getattr(torch, "get_default_device", lambda: DEVICE)().type == "meta"
    return contextlib.nullcontext() if DEVICE.type == "cpu" or traced else DEVICE


def accelerator():
    """torch.cuda, torch.musa."""
    return getattr(torch, DEVICE.type)


def convolutions():
    """What torch calls the library under its convolutions."""
    return torch.backends.mudnn if DEVICE.type == "musa" else torch.backends.cudnn


def seed_everything(seed):
    torch.default_generator.manual_seed(seed)  # torch.manual_seed also visits every accelerator, which costs 80 us
    if DEVICE.type != "cpu" and accelerator().is_initialized():
        accelerator().default_generators[accelerator().current_device()].manual_seed(seed)
    random.seed(seed)
    if numpy is not None:
        numpy.random.seed(seed % (1 << 32))


def flatten(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [tensor for item in result for tensor in flatten(item)]
    raise TaskError(f"forward returns {type(result).__name__} where a tensor belongs")


def redraw(like, profile):
    """Values of a profile in the shape and strides of `like`."""
    with torch.device(like.device):
        return redrawn(like, profile)


def redrawn(like, profile):
    normal = torch.randn(like.shape, dtype=torch.float32)
    if profile == "uniform":
        values = torch.rand(like.shape, dtype=torch.float32)
    elif profile == "signed_normal":
        values = normal
    elif profile == "large":
        values = normal * 100
    elif profile == "small":
        values = normal * 1e-3
    elif profile == "sparse":
        values = normal * (torch.rand(like.shape) < 0.25)
    elif profile == "special":
        values = special(normal, like.dtype)
    else:
        raise TaskError(f"no value profile '{profile}'")
    result = torch.empty_like(like)
    result.copy_(values)
    return result


def special(normal, dtype):
    """N(0, 1) in which one value in 16 is 0, -0, a denormal or as large as a square root of the range allows."""
    info = torch.finfo(dtype if dtype in DTYPE_NAMES else torch.float32)
    tiny, large = info.tiny / 4, math.sqrt(min(info.max, torch.finfo(torch.float32).max)) / 4
    choices = torch.tensor([0.0, -0.0, tiny, -tiny, large, -large], dtype=torch.float64).to(torch.float32)
    picked = choices[torch.randint(0, len(choices), normal.shape)]
    return torch.where(torch.rand(normal.shape) < 1 / 16, picked, normal)


# ---- Tracing: which tensors and numbers a candidate is given, and what their sizes are called. ----


class Trace:
    """What one call at one choice of constants looked like."""

    def __init__(self, reference, meta):
        with torch.device("meta") if meta else DEVICE:
            args = reference.draw(0)
            model = reference.build(0)
            state = reference.tensors_of(model)
            outputs = reference.call(model, args)
        names = argument_names(reference.module.Model.forward, len(args))
        self.tensors = [(n, "input", a) for n, a in zip(names, args) if isinstance(a, torch.Tensor)]
        self.tensors += [(n.replace(".", "_"), "parameter", tensor) for n, tensor in state]
        out_names = ["out"] if len(outputs) == 1 else [f"out{i}" for i in range(len(outputs))]
        self.tensors += [(n, "output", tensor) for n, tensor in zip(out_names, outputs)]
        if not any(role == "output" for _, role, _ in self.tensors):
            raise TaskError("forward returns no tensor")
        for name, _, tensor in self.tensors:
            if tensor.dtype not in DTYPE_NAMES:
                raise TaskError(f"`{name}` has the unsupported dtype {str(tensor.dtype).removeprefix('torch.')}")
            if tensor.layout is not torch.strided:
                raise TaskError(f"`{name}` is not a dense tensor")
            if tensor.dim() > 8:
                raise TaskError(f"`{name}` has {tensor.dim()} dimensions; at most 8 are supported")
        self.scalars = [(n, a) for n, a in zip(names, args) if not isinstance(a, torch.Tensor)]
        init_args, init_kwargs = reference.init_inputs()
        init = list(zip(argument_names(reference.module.Model.__init__, len(init_args)), init_args))
        init += list(init_kwargs.items())
        self.init_scalars = [(n, v) for n, v in init if type(v) in (int, float)]
        self.init = (init_args, init_kwargs)
        self.args = args
        self.state_names = [n for n, _ in state]
        self.constants = reference.constants()
        self.layout = [(n, role, tensor.dtype, tensor.dim()) for n, role, tensor in self.tensors]

    def spec(self, index):
        name, role, tensor = self.tensors[index]
        contiguous = role != "input" or tensor.is_contiguous()
        return {
            "name": name,
            "role": role,
            "dtype": DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "strides": [] if contiguous else list(tensor.stride()),
        }


    def recipe(self, dtype):
        """See the head of this file."""
        of_role = {role: [i for i, t in enumerate(self.tensors) if t[1] == role] for role in ("input", "parameter", "output")}
        inputs = iter(of_role["input"])
        forward = [("tensor", next(inputs)) if isinstance(a, torch.Tensor) else ("value", a) for a in self.args]
        strides = {i: list(self.tensors[i][2].stride()) for i in of_role["input"] if not self.tensors[i][2].is_contiguous()}
        recipe = {
            "init": self.init,
            "dtype": dtype,
            "forward": forward,
            "state": list(zip(self.state_names, of_role["parameter"])),
            "outputs": of_role["output"],
            "strides": strides,
        }
        text = repr(recipe)
        try:
            return text if ast.literal_eval(text) == recipe else ""
        except (ValueError, SyntaxError, MemoryError, RecursionError, RuntimeError):
            return ""  # a value that no literal gives: a tensor, a class, an infinity


def argument_names(function, count):
    """Names of the first `count` positional parameters after self."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = []
    for parameter in parameters[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}{i}" for i in range(count - len(names))]
        elif parameter.kind is not parameter.VAR_KEYWORD:
            names.append(parameter.name)
    names += [f"input{i}" for i in range(len(names), count)]
    return names[:count]


def trace(source, sizes, dtype):
    """On the meta device where the module allows it (no memory, no arithmetic), else for real."""
    reference = Reference(source, sizes, dtype)
    try:
        return Trace(reference, meta=True)
    except Exception:
        return Trace(reference, meta=False)


def perturbations(source, dtype, base):
    """Traces with one constant changed each, to tell equal sizes apart and to see which sizes change at all (half of an odd
    one may not): up to two for each constant, none for those that cannot change, and no more once they take long."""
    biggest = max((tensor.numel() for _, _, tensor in base.tensors), default=0)
    on_meta = all(tensor.is_meta for _, _, tensor in base.tensors)
    start = time.monotonic()
    for name, value in base.constants.items():
        if not 0 < value < 1 << 40:
            continue
        found = 0
        for other in (value + 1, 2 * value, value + 2, value + 4, value - 1):
            if other < 1 or found == 2 or time.monotonic() - start > PERTURBATION_SECONDS:
                continue
            if not on_meta and (biggest > 1 << 20 or other > 2 * value):
                continue
            try:
                changed = Trace(Reference(source, {name: other}, dtype), meta=on_meta)
            except Exception:
                continue
            if changed.layout == base.layout:
                yield changed
                found += 1


class Names:
    """Gives each argument a name that is valid in C++ and not yet taken."""

    def __init__(self):
        self.taken = set()

    def add(self, wanted):
        name = re.sub(r"\W", "_", wanted, flags=re.ASCII) or "arg"
        if name[0].isdigit():
            name = "_" + name
        while name in self.taken or name in RESERVED or keyword.iskeyword(name):
            name += "_"
        self.taken.add(name)
        return name


def describe(request):
    source, dtype = request["source"], request["dtype"]
    base = trace(source, {}, dtype)
    traces = [base]
    for sizes in request["points"]:
        other = trace(source, sizes, dtype)
        if other.layout != base.layout:
            shape = " ".join(f"{k}={v}" for k, v in sizes.items())
            raise TaskError(f"the shape {shape} changes the number, the dtype or the rank of tensors")
        traces.append(other)
    given = len(traces)
    traces += perturbations(source, dtype, base)

    constant_vectors = {}  # values over all traces -> name; the first of equal ones wins
    for name in base.constants:
        vector = tuple(t.constants.get(name) for t in traces)
        constant_vectors.setdefault(vector, name)

    names = Names()
    tensor_names = [names.add(name) for name, _, _ in base.tensors]
    size_names, sizes, tensors = {}, [], []
    for index, tensor_name in enumerate(tensor_names):
        spec = base.spec(index)
        spec["name"] = tensor_name
        spec["dimensions"] = []
        for axis, extent in enumerate(spec["shape"]):
            vector = tuple(t.tensors[index][2].shape[axis] for t in traces)
            if vector not in size_names:
                constant = constant_vectors.get(vector)
                if constant is None and len(set(vector)) == 1:
                    spec["dimensions"].append(str(extent))
                    continue
                size_names[vector] = names.add(constant or f"{tensor_name}_dim{axis}")
                sizes.append({"name": size_names[vector], "value": extent, "wide": False})
            spec["dimensions"].append(size_names[vector])
        if any(t.tensors[index][2].numel() >= 1 << 31 for t in traces[:given]):
            wide = set(spec["dimensions"])
            for size in sizes:
                size["wide"] = size["wide"] or size["name"] in wide
        tensors.append(spec)
    scalars = describe_scalars(request, traces, given, size_names, names)
    return {"tensors": tensors, "sizes": sizes, "scalars": scalars}


def describe_scalars(request, traces, given, size_names, names):
    """Numbers that forward and Model take and that no size tells, and constants that only the shapes' names tell."""
    base, result, seen = traces[0], [], set(size_names)

    def add(origin, key, value):
        result.append(
            {
                "name": names.add(key),
                "origin": origin,
                "key": key,
                "integral": isinstance(value, int),
                "value": float(value),
            }
        )

    for name, value in base.scalars:
        add("forward", name, value)
    for position, (name, value) in enumerate(base.init_scalars):
        vector = tuple(t.init_scalars[position][1] for t in traces)
        if vector in size_names:
            continue
        seen.add(vector)
        add("init", name, value)
    varied = {name for sizes in request["points"] for name in sizes}
    for name, value in base.constants.items():
        vector = tuple(t.constants.get(name) for t in traces)
        if name in varied and vector not in seen and len(set(vector[:given])) > 1:
            seen.add(vector)
            add("constant", name, value)
    return result


def plan(request):
    traced = trace(request["source"], request["sizes"], request["dtype"])
    values = {("forward", n): float(v) for n, v in traced.scalars}
    values.update({("init", n): float(v) for n, v in traced.init_scalars})
    values.update({("constant", n): float(v) for n, v in traced.constants.items()})
    return {
        "tensors": [traced.spec(i) for i in range(len(traced.tensors))],
        "scalars": [{"origin": origin, "key": key, "value": value} for (origin, key), value in values.items()],
        "recipe": traced.recipe(request["dtype"]),
    }


# ---- Pools: input sets with their expected outputs, in memory shared with the judge. ----


DRIVERS = {"cuda": ("libcuda.so.1", "cu"), "musa": ("libmusa.so.1", "mu")}  # library, prefix of its names


class Driver:
    """The driver's functions under their names without the prefix."""

    def __init__(self, kind):
        library, self.prefix = DRIVERS[kind]
        self.library = ctypes.CDLL(library)

    def __getattr__(self, name):
        return getattr(self.library, self.prefix + name)


class DeviceMemory:
    """An allocation of the device, imported from a descriptor."""

    def __init__(self, fd, size):
        self.size = size
        self.driver = Driver(DEVICE.type)
        handle, self.address = ctypes.c_ulonglong(), ctypes.c_ulonglong()
        call("import", self.driver.MemImportFromShareableHandle, ctypes.byref(handle), ctypes.c_void_p(fd), 1)
        bytes_ = ctypes.c_size_t(size)
        zero = ctypes.c_ulonglong(0)
        call("reserve", self.driver.MemAddressReserve, ctypes.byref(self.address), bytes_, ctypes.c_size_t(0), zero, zero)
        call("map", self.driver.MemMap, self.address, bytes_, ctypes.c_size_t(0), handle, zero)
        call("release", self.driver.MemRelease, handle)  # the mapping keeps the memory
        access = (ctypes.c_int * 3)(1, accelerator().current_device(), 3)  # this device may read and write
        call("access", self.driver.MemSetAccess, self.address, bytes_, access, ctypes.c_size_t(1))

        if DEVICE.type == "cuda":
            self.__cuda_array_interface__ = {
                "shape": (size,),
                "typestr": "|u1",
                "data": (self.address.value, False),
                "version": 3,
            }

    def tensor(self):
        """Its bytes, without a copy. They live as long as this object; on CUDA they keep it alive."""
        if DEVICE.type == "cuda":
            return torch.as_tensor(self, device=DEVICE)
        return bytes_at(self.address.value, self.size, KDL_EXT_DEV, accelerator().current_device())

    def __del__(self):
        if self.address.value:
            accelerator().synchronize()
            self.driver.MemUnmap(self.address, ctypes.c_size_t(self.size))
            self.driver.MemAddressFree(self.address, ctypes.c_size_t(self.size))


KDL_EXT_DEV = 12  # dlpack.h's device that torch takes for the device of a plugin, which torch_musa's is


class DLTensor(ctypes.Structure):
    """dlpack.h's DLManagedTensor."""

    Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", Deleter)]


LENT = []  # what torch holds on to of memory that was handed to it: a few words each
RETURN_NOTHING = DLTensor.Deleter(lambda _: None)


def bytes_at(address, size, device_type, device_id):
    """Memory as a tensor of bytes on a device."""
    shape = (ctypes.c_int64 * 1)(size)
    lent = DLTensor(address, device_type, device_id, 1, 1, 8, 1, shape, None, 0, None, RETURN_NOTHING)
    LENT.append((lent, shape))
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return torch.utils.dlpack.from_dlpack(make(ctypes.addressof(lent), b"dltensor", None))


def call(what, function, *arguments):
    code = function(*arguments)
    if code != 0:
        raise RuntimeError(f"the pool's memory: {what}: driver error {code}")


class Pool:
    """Sets of one task at one shape. `calls` has (model, arguments) of each set, when they are kept for timing."""

    def __init__(self, reference, fd, size, last=None):
        """`last`: an earlier pool of the same number, whose memory is filled anew; else it is mapped."""
        self.reference = reference
        if last is not None:
            self.allocation, self.memory = last.allocation, last.memory
        elif DEVICE.type == "cpu":
            self.allocation = None
            self.memory = mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        else:
            self.allocation = DeviceMemory(fd, size)
            self.memory = self.allocation.tensor()
        self.calls = []
        self.copies = []  # for each set, memory to copy outputs into
        self.last_model = (None, None)  # of the last seed

    def model(self, seed):
        if self.last_model[0] != seed:
            self.last_model = (seed, self.reference.build(seed))
        return self.last_model[1]

    def copy_out(self, position, outputs):
        """What the runner of a Python candidate does with what `forward` returns."""
        outputs = [outputs] if isinstance(outputs, torch.Tensor) else flatten(outputs)
        while len(self.copies) <= position:
            self.copies.append([torch.zeros(output.shape, dtype=output.dtype, device=output.device) for output in outputs])
        for copy, output in zip(self.copies[position], outputs):
            copy.copy_(output)

    def view(self, slot, like):
        offset, expected_bytes = slot
        if like.numel() * like.element_size() != expected_bytes:
            raise TaskError(f"a tensor of shape {list(like.shape)} is not the one that was traced")
        if like.numel() == 0:
            return torch.empty(like.shape, dtype=like.dtype, device=DEVICE)
        if DEVICE.type != "cpu":
            return self.memory[offset : offset + expected_bytes].view(like.dtype).view(like.shape)
        flat = torch.frombuffer(self.memory, dtype=like.dtype, count=like.numel(), offset=offset)
        return flat.view(like.shape)


BEHIND_BYTES = 256 << 20  # what KernelBench clears the cache with


class Worker:
    def __init__(self):
        self.pools = {}
        self.nothing = torch.zeros(1, device=DEVICE)
        self.square = None  # and their product: something to do for a device
        self.written = None

    def fill(self, request, fds):
        if len(fds) != 1:
            raise RuntimeError("fill needs the pool's memory")
        convolutions().allow_tf32 = False  # expected values in the precision that was asked for
        first = request["first_set"]
        pool = self.pools[request["pool"]] if request["keep"] and first > 0 else None
        if pool is None:
            reference = Reference(request["source"], request["sizes"], request["dtype"])
            pool = Pool(reference, fds[0], request["memory_bytes"], self.pools.get(request["pool"]))
        for position, seed in enumerate(request["seeds"]):
            base = (first + position) * request["set_bytes"]
            slots = [(base + offset, size) for offset, size in zip(request["offsets"], request["bytes"])]
            model = pool.model(request["parameter_seeds"][position])
            call = self.fill_set(pool, model, seed, request["profile"], slots)
            if request["keep"]:
                pool.calls.append(call)
        if request["keep"]:
            self.pools[request["pool"]] = pool
        if DEVICE.type != "cpu":
            accelerator().synchronize()
        return {}

    def fill_set(self, pool, model, seed, profile, slots):
        reference = pool.reference
        args = reference.draw(seed, profile)
        slots = iter(slots)
        for position, value in enumerate(args):
            if isinstance(value, torch.Tensor):
                stored = pool.view(next(slots), value)
                stored.copy_(value)
                if value.is_contiguous():
                    args[position] = stored
        for _, value in reference.tensors_of(model):
            pool.view(next(slots), value).copy_(value)
        if reference.mutates is None:
            copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in args]
            reference.call(model, copies)
            reference.mutates = any(
                isinstance(value, torch.Tensor) and not torch.equal(value.view(torch.uint8), copy.view(torch.uint8))
                for value, copy in zip(args, copies)
                if isinstance(value, torch.Tensor) and value.is_contiguous() and value.dim() > 0
            )
        for output in reference.call(model, clones(args) if reference.mutates else args):
            slot = next(slots, None)
            if slot is None:
                raise TaskError("forward returns more tensors than when it was traced")
            pool.view(slot, output).copy_(output)
        if next(slots, None) is not None:
            raise TaskError("forward returns fewer tensors than when it was traced")
        return model, args

    def time(self, request):
        pool = self.pools[request["pool"]]
        calls = [pool.calls[index] for index in request["warm"] + request["sets"]]
        if pool.reference.mutates:
            calls = [(model, clones(args)) for model, args in calls]
        if DEVICE.type != "cpu":
            warm = len(request["warm"])
            return self.time_on_device(pool, calls[:warm], calls[warm:], request["copies"], request["events"])
        clock, stamps = time.thread_time_ns, []
        try:
            for model, args in calls:
                start = clock()
                outputs = model(*args)
                middle = clock()
                if request["copies"]:
                    pool.copy_out(len(stamps), outputs)
                stamps.append((start, middle, clock()))
        except Exception as error:
            raise blame("Model.forward", error) from None
        reading = min(-(clock() - clock()) for _ in range(5))  # what one reading of the clock costs
        stamps = stamps[len(request["warm"]) :]
        return {
            "call_ns": [middle - start - reading for start, middle, _ in stamps],
            "copy_ns": [end - middle - reading for _, middle, end in stamps],
        }

    def time_on_device(self, pool, warm, calls, copies, events):
        """Between two events of the device, around the calls.

        One call comes before, on a copy of a set so that the sets stay cold: the allocator may have given back its memory
        since the last round, and asking the driver for more takes longer than a round may be wrong by. Another one keeps the
        device busy while the first call that counts is prepared: what this process needs to get going is no part of the
        reference's time. With `events`, of KernelBench's protocol, that is the write by which the cache is cleared there."""
        convolutions().allow_tf32 = True  # as PyTorch runs it when nobody asks
        try:
            before = (calls[0][0], clones(calls[0][1]))
            for model, args in warm + [before]:
                outputs = model(*args)
            copy_ns = self.copy_cost(pool, outputs) if copies else 0
            del args, outputs
            call_ns = self.stretch(before, calls, events)
        except Exception as error:
            raise blame("Model.forward", error) from None
        return {"call_ns": [max(call_ns, 1)], "copy_ns": [copy_ns]}

    def copy_cost(self, pool, outputs):
        """Nanoseconds that the device takes to copy a call's outputs: the copies wait behind a product that takes longer than
        asking for them. What asking takes a process is not in it: how much of that a candidate's copies cost it depends on
        whether it or the device is the slower one."""
        if self.square is None:
            self.square = torch.zeros(2048, 2048, device=DEVICE)
            self.product = torch.mm(self.square, self.square)
        pool.copy_out(0, outputs)
        marks = self.marks()
        torch.mm(self.square, self.square, out=self.product)
        marks[0].record()
        for _ in range(COPIES):
            pool.copy_out(0, outputs)
        return self.between(marks) / COPIES

    def stretch(self, before, calls, events):
        """Nanoseconds of a call, one after the other, behind the call `before` or the clearing of the cache."""
        if events and self.written is None:
            self.written = torch.empty(BEHIND_BYTES, dtype=torch.uint8, device=DEVICE)
        marks = self.marks()
        if events:
            self.written.fill_(42)
        else:
            before[0](*before[1])
        marks[0].record()
        for model, args in calls:
            model(*args)
        return self.between(marks) / len(calls)

    def marks(self):
        """Two events of the device, which is idle and has this process's context."""
        self.nothing.zero_()
        accelerator().synchronize()
        return [accelerator().Event(enable_timing=True) for _ in range(2)]

    def between(self, marks):
        """Nanoseconds from the first mark to now."""
        marks[1].record()
        accelerator().synchronize()
        return 1e6 * marks[0].elapsed_time(marks[1])

    def release(self, request):
        self.pools.pop(request["pool"], None)
        return {}

    def answer(self, request, fds):
        operation = request["op"]
        if operation == "time":
            return self.time(request)
        if operation == "fill":
            return self.fill(request, fds)
        if operation == "plan":
            return plan(request)
        if operation == "own_errors":
            return {"errors": own_errors(request)}
        if operation == "describe":
            return describe(request)
        if operation == "release":
            return self.release(request)
        raise RuntimeError(f"no operation {operation}")


def own_errors(request):
    """Of each output, the rms error against the same task in float64, relative to its size; [] where that does not run."""
    reference = Reference(request["source"], request["sizes"], request["dtype"])
    model = reference.build(request["seed"])
    args = reference.draw(request["seed"], "as_given")
    start = time.monotonic()
    outputs = reference.call(model, clones(args))
    if sum(output.numel() for output in outputs) > EXACT_ELEMENTS:
        return []
    try:
        outputs = [output.double().cpu() for output in outputs]
        if time.monotonic() - start > EXACT_SECONDS:
            return []
        wide = [value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value for value in args]
        errors = []
        for output, best in zip(outputs, reference.call(copy.deepcopy(model).double(), wide)):
            if best.dtype != torch.float64:
                return []
            best = best.cpu()
            size = best.square().sum()
            errors.append(float(((output - best).square().sum() / size).sqrt()) if size > 0 else 0.0)
    except Exception:  # types written into the task, operators without float64, no memory for twice the width
        return []
    return errors if all(math.isfinite(error) for error in errors) else []


def give_back_memory():
    """What the allocator keeps for later is memory that the judge cannot have."""
    if accelerator().memory_reserved() - accelerator().memory_allocated() > KEPT_BYTES:
        accelerator().empty_cache()


def clones(args):
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in args]


# Traced once before the first request: tracing without data loads a part of torch that takes a second or two.
WARM_UP = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, 1).sum()
def get_inputs():
    return [torch.rand(2, 3)]
"""


# ---- The socket. ----


def read_exactly(connection, count):
    parts = []
    while count:
        part = connection.recv(count)
        if not part:
            sys.exit(0)
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def read_frame(connection):
    header, ancillary, _, _ = connection.recvmsg(HEADER.size, socket.CMSG_SPACE(4 * 8))
    if not header:
        sys.exit(0)
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    header += read_exactly(connection, HEADER.size - len(header))
    length, _ = HEADER.unpack(header)
    return json.loads(read_exactly(connection, length)), list(fds)


def write_frame(connection, reply):
    text = json.dumps(reply).encode()
    connection.sendall(HEADER.pack(len(text), 0) + text)


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, whose end closes the socket
    global DEVICE
    for option, value in zip(sys.argv[1::2], sys.argv[2::2]):
        if option == "--core":
            os.sched_setaffinity(0, {int(value)})
        if option == "--device":
            if value == "musa":
                importlib.import_module("torch_musa")  # which makes the device known
            DEVICE = torch.device(value)
    warnings.simplefilter("ignore")  # of tasks' models, once for each trace
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_grad_enabled(False)
    connection = socket.socket(fileno=SOCKET_FD)
    worker = Worker()
    describe({"source": WARM_UP, "dtype": "float32", "points": []})
    gc.collect()
    gc.freeze()
    write_frame(connection, {"ok": True, "torch": torch.__version__})
    gc.disable()  # collections would fall into timed rounds: they are made between requests instead
    for count in itertools.count():
        request, fds = read_frame(connection)
        try:
            reply = worker.answer(request, fds)
            reply["ok"] = True
        except TaskError as error:
            reply = {"ok": False, "message": str(error), "line": error.line}
        except (MemoryError, torch.cuda.OutOfMemoryError):
            reply = {"ok": False, "message": "the reference needs more memory than there is", "line": 0}
        finally:
            for fd in fds:
                os.close(fd)
        # On a device before the answer: memory that is given back while a candidate is timed would be seen by its clock.
        if DEVICE.type == "cpu":
            write_frame(connection, reply)
        if request["op"] in ("fill", "describe"):
            gc.collect(2 if count % 1024 == 0 else 0)  # a full one takes tens of milliseconds
        if DEVICE.type != "cpu":
            if request["op"] in ("fill", "release"):
                give_back_memory()
            write_frame(connection, reply)


if __name__ == "__main__":
    main()
