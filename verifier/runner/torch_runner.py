"""The process that Python candidates run in: hone-runner's counterpart for `ModelNew` modules (verifier/runner/protocol.h).

Started once by the judge, inside the sandbox, as a fork server with torch imported and no device touched; forks one runner
for each candidate. A runner executes the module, makes the calls it is told to, and is killed. Everything here shares its
process with untrusted code once a candidate is loaded, and nothing that it says is believed.

usage: torch_runner.py CONTROL_FD [--core N] [--filter FD] [--compiling-filter FD] [--gpu BACKEND DRIVER.so]
  CONTROL_FD  the inherited socket to the judge
  --gpu       runners open the one visible device, each for itself and before its hello; without it they run on the CPU
  --filter    a memory file with the system-call filter that runners install before a candidate is loaded
  --compiling-filter   the same for candidates with Triton kernels on a GPU, which start compilers; what such a runner leaves
              behind ends with it

What a candidate gets
  - `torch.utils.cpp_extension.load_inline` and `load` hand out what the build stage built for the very same sources, and
    raise for all else: nothing is compiled here. Under a compatibility toolchain of MUSA ($HONE_MUSA_RUNTIME names its
    libmusart) `torch_musa.utils.musa_extension.load_inline` does, and torch_musa is names over torch.
  - Weights: the reference's, by its state dict, strictly, once for each case.
  - Inputs in memory that it shares with the judge; what `forward` returns is copied into the judge's output buffers within
    the round. The judge knows what such a copy costs and takes it off (docs/decisions.md).
"""

import argparse
import ast
import ctypes
import gc
import importlib.machinery
import importlib.util
import json
import linecache
import math
import os
import re
import resource
import select
import signal
import socket
import struct
import sys
import time
import traceback
import types
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
warnings.simplefilter("ignore")
os.environ.setdefault("USER", "hone")  # torch names folders after it, and the sandbox has no list of users
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", "/tmp/inductor")

import torch  # noqa: E402
import torch._dynamo  # noqa: E402  part of every dispatch mode, and more than a filtered process may import
import torch.nn.functional  # noqa: E402
import torch.utils.cpp_extension  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import torch_extension  # noqa: E402

try:
    import numpy  # noqa: F401  so that the first candidate that imports it does not pay for it
except ImportError:
    pass

MUSA_EXTENSION = None  # torch_musa's extension builder; set once by main
MAGIC = 0x31454E48
CANDIDATE_FILE = "<candidate>"
K_MAP, K_LOAD, K_RUN, K_PREPARE = 1, 2, 3, 4
K_HELLO, K_LOADED, K_LOAD_FAILED, K_DONE = 1, 2, 3, 4
LOOK_NS = 300_000  # for the next message
REHEARSED_NS = 2_000_000  # calls that take longer have no use for a rehearsal
REHEARSED_BYTES = 512 << 20
# PythonError of protocol.h.
RAISED, OUT_OF_MEMORY, WRONG_OUTPUT = 1, 2, 3

libc = ctypes.CDLL(None, use_errno=True)


def structure(name, fields):
    return type(name, (ctypes.Structure,), {"_fields_": fields})


u32, u64, i32, i64 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32, ctypes.c_int64
ForkRequest = structure("ForkRequest", [("magic", u32), ("id", u32), ("data_limit_bytes", u64), ("cpu_limit_s", u64)])
ZygoteReady = structure("ZygoteReady", [("magic", u32), ("seccomp", u32), ("message", ctypes.c_char * 256)])
RunnerEnded = structure(
    "RunnerEnded",
    [("magic", u32), ("id", u32), ("fork_error", i32), ("exited", i32), ("status", i32), ("reserved", i32),
     ("peak_rss_kb", u64)],
)
Command = structure(
    "Command",
    [("magic", u32), ("kind", u32), ("epoch", u64), ("first_call", u32), ("call_count", u32), ("order", u32),
     ("order_seed", u32), ("checked", u32), ("fresh", u32), ("kernels_off", u32), ("behind_mb", u32), ("table_bytes", u64)],
)
Answer = structure(
    "Answer",
    [("magic", u32), ("kind", u32), ("epoch", u64), ("code", i32), ("failed_call", u32), ("process_ns", i64),
     ("signal", i32), ("system_call", i32), ("address", u64), ("workspace_failed", u64), ("launches", u64),
     ("custom_calls", u32), ("library_calls", u32), ("text", ctypes.c_char * 216)],
)
TableRegion = structure(
    "TableRegion", [("address", u64), ("bytes", u64), ("offset", u64), ("writable", u32), ("reserved", u32)]
)
TableTensor = structure(
    "TableTensor",
    [("shape", i64 * 8), ("strides", i64 * 8), ("ndim", i32), ("dtype", i32), ("bytes", i64), ("writable", i32),
     ("reserved", i32)],
)
TableHeader = structure(
    "TableHeader",
    [("region_count", u32), ("tensor_count", u32), ("size_count", u32), ("scalar_count", u32), ("call_count", u32),
     ("recipe_bytes", u32), ("regions", u64), ("tensors", u64), ("sizes", u64), ("scalars", u64), ("addresses", u64),
     ("recipe", u64)],
)

# hone::DType in order.
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.int8, torch.uint8,
          torch.bool]


class WrongOutput(Exception):
    """What `forward` returned has another form than the reference's."""


def shorten(text, limit=212):
    data = text.encode("utf-8", "replace")
    return data if len(data) <= limit else data[: limit - 3].decode("utf-8", "ignore").encode() + b"..."


POSITION = re.compile(r"at \d+:\d+:$")  # how a compiler's message begins that ends with the reason


def words_of(error):
    """Its text, as lines; an error may well raise another one when it is asked."""
    try:
        return (str(error).strip() or "no message").splitlines()
    except Exception:
        return ["no message"]


def describe_error(error, what):
    """One line for a person: what was raised, and at which line of the candidate."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == CANDIDATE_FILE]
    where = f" (line {lines[-1]})" if lines else ""
    lines_said = words_of(error)
    first = lines_said[0][:160]
    if POSITION.match(first.strip()) and len(lines_said) > 1:
        first = f"{first.strip()} {lines_said[-1].strip()[:130]}"
    return f"{what} raised {type(error).__name__[:60]}: {first}{where}"


# ---- Legality: which operators of the framework compute, and which kernels are the candidate's own. ----

# Operators that move, reshape, allocate or look at data without computing: the published allow-list (arXiv 2606.04847,
# appendix J) and the names under which newer dispatchers know the same operators. Views are recognised by their schema.
PLUMBING = set(
    """_assert_async _assert_scalar _assert_tensor_metadata _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int
    _cast_Long _cast_Short _local_scalar_dense alias allclose arange as_strided broadcast_to clone contiguous copy_ empty
    empty_like equal expand flatten full item ones permute rand randint randn reshape select slice squeeze stride transpose
    unsqueeze view zeros _to_copy detach detach_ empty_strided fill_ new_empty new_empty_strided to zero_ lift_fresh lift
    full_like zeros_like ones_like new_zeros new_full new_ones _unsafe_view _reshape_alias is_pinned _pin_memory pin_memory
    record_stream set_ resize_ is_same_size sym_size sym_stride sym_numel sym_storage_offset scalar_tensor
    _has_compatible_shallow_copy_type is_nonzero split split_with_sizes chunk unbind narrow movedim t numpy_T unfold""".split()
)


def is_plumbing(operator):
    namespace, _, name = operator.name().partition("::")
    if namespace != "aten":
        return namespace in ("prim", "profiler")
    if name.split(".")[0] in PLUMBING:
        return True
    # A view: some result shares memory with an argument that is not written to.
    returns = operator._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


class Watch(TorchDispatchMode):
    """Counts operators that compute, and calls of operators that the candidate registered itself; what the framework does inside of
    those counts like the rest."""

    def __init__(self):
        super().__init__()
        self.library = {}
        self.custom = 0

    def __torch_dispatch__(self, operator, _, args=(), kwargs=None):
        kwargs = kwargs or {}
        if operator.namespace not in ("aten", "prim", "profiler", "prims"):
            self.custom += 1
            return self.look_inside(operator, args, kwargs)
        if not is_plumbing(operator):
            name = operator.name().split(".")[0]
            self.library[name] = self.library.get(name, 0) + 1
        return operator(*args, **kwargs)

    def look_inside(self, operator, args, kwargs):
        """Calls the operator's kernel with this mode on, which it is not while it handles an operator."""
        on_gpu = any(isinstance(value, torch.Tensor) and value.is_cuda for value in (*args, *kwargs.values()))
        for key in ("CUDA" if on_gpu else "CPU", "CompositeExplicitAutograd"):
            if torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key):
                with self:
                    return operator._op_dk(getattr(torch._C.DispatchKey, key), *args, **kwargs)
        return operator(*args, **kwargs)


def triton_entries():
    """Code objects that run whenever a Triton kernel is launched."""
    codes = set()
    for module, name, method in (("triton.runtime.jit", "JITFunction", "run"),
                                 ("triton.runtime.interpreter", "GridExecutor", "__call__")):
        loaded = sys.modules.get(module)
        function = getattr(getattr(loaded, name, None), method, None)
        if function is not None:
            codes.add(function.__code__)
    return codes


class CustomCalls:
    """Counts calls into extensions that were handed out and launches of Triton kernels, by the interpreter's own hook, so
    that timed calls pay nothing for it."""

    def __init__(self, extension_names):
        self.names = extension_names
        self.codes = triton_entries()
        self.count = 0

    def hook(self, frame, event, argument):
        if event == "c_call":
            if getattr(argument, "__module__", None) in self.names:
                self.count += 1
        elif event == "call" and frame.f_code in self.codes:
            self.count += 1

    def __enter__(self):
        sys.setprofile(self.hook)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)


# ---- Devices. ----


def map_memory(fd, size, offset, protection, address=0):
    MAP_SHARED, MAP_POPULATE, MAP_FIXED_NOREPLACE = 0x01, 0x8000, 0x100000
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    flags = MAP_SHARED | MAP_POPULATE | (MAP_FIXED_NOREPLACE if address else 0)
    got = libc.mmap(address or None, size, protection, flags, fd, offset)
    if got is None or got == ctypes.c_void_p(-1).value or (address and got != address):
        raise OSError(ctypes.get_errno(), "mmap: " + os.strerror(ctypes.get_errno()))
    return got


class CpuDevice:
    name = "cpu"

    def start(self):
        pass

    def map_regions(self, regions, inputs_fd, outputs_fd):
        for region in regions:
            map_memory(outputs_fd if region.writable else inputs_fd, region.bytes, region.offset,
                       3 if region.writable else 1, region.address)

    def tensor(self, address, dtype, shape):
        count = 1
        for extent in shape:
            count *= extent
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
        return torch.frombuffer(memory, dtype=dtype, count=count).view(shape)

    def synchronize(self):
        pass

    def begin(self, behind_mb=0):
        self.began = time.process_time_ns()

    def end(self):
        return time.process_time_ns() - self.began


def torch_musa_names(on_gpu):
    """The modules that a MUSA candidate imports, over torch's own device."""
    package, utils, extension = (types.ModuleType("torch_musa" + name) for name in ("", ".utils", ".utils.musa_extension"))
    package.utils, utils.musa_extension = utils, extension
    for module in (package, utils, extension):
        sys.modules[module.__name__] = module
    torch.musa = torch.cuda
    torch.Tensor.musa = torch.Tensor.cuda if on_gpu else lambda tensor, *_, **__: tensor
    torch.Tensor.is_musa = property(lambda tensor: tensor.is_cuda == on_gpu)
    return extension


def offer_torch_musa(on_gpu):
    """torch_musa's extension builder, whose functions a runner replaces; None where candidates are not MUSA's."""
    runtime = os.environ.get("HONE_MUSA_RUNTIME")
    if not runtime:
        return None
    ctypes.CDLL(runtime, ctypes.RTLD_GLOBAL)  # what extensions leave open
    return torch_musa_names(on_gpu)


class CudaDevice:
    name = "cuda"
    READ, READ_WRITE, FILE_DESCRIPTOR = 1, 3, 1

    def __init__(self, driver, data_limit_bytes):
        self.driver = ctypes.CDLL(driver)
        self.data_limit_bytes = data_limit_bytes
        os.environ["TRITON_LIBCUDA_PATH"] = os.path.dirname(driver)  # it would ask ldconfig, a process of its own
        self.moved = []  # (address that the table says, bytes, where it lies here)
        self.written = None  # what the device writes before calls that are queued behind that

    def start(self):
        torch.cuda.init()
        self.nothing = torch.zeros(1, device="cuda")
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.begin()
        self.end()
        if self.data_limit_bytes:  # beyond what the driver took
            with open("/proc/self/statm") as file:
                limit = int(file.read().split()[5]) * resource.getpagesize() + self.data_limit_bytes
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    def check(self, what, code):
        if code != 0:
            raise RuntimeError(f"{what}: driver error {code}")

    def map_regions(self, regions, inputs_fd, outputs_fd):
        self.moved = []
        for region in regions:
            handle, address = u64(), u64()
            size, zero = ctypes.c_size_t(region.bytes), ctypes.c_size_t(0)
            fd = outputs_fd if region.writable else inputs_fd
            driver = self.driver
            self.check("import", driver.cuMemImportFromShareableHandle(ctypes.byref(handle), ctypes.c_void_p(fd),
                                                                       self.FILE_DESCRIPTOR))
            wanted = u64(region.address)
            self.check("reserve", driver.cuMemAddressReserve(ctypes.byref(address), size, zero, wanted, u64(0)))
            self.check("map", driver.cuMemMap(address, size, zero, handle, u64(0)))
            self.check("release", driver.cuMemRelease(handle))  # the mapping keeps the memory
            access = (ctypes.c_int * 3)(1, torch.cuda.current_device(), self.READ_WRITE if region.writable else self.READ)
            self.check("access", driver.cuMemSetAccess(address, size, access, ctypes.c_size_t(1)))
            self.moved.append((region.address, region.bytes, address.value))

    def here(self, address):
        for wanted, size, got in self.moved:
            if wanted <= address < wanted + size:
                return address - wanted + got
        raise RuntimeError("an address outside of all regions")

    def tensor(self, address, dtype, shape):
        count = 1
        for extent in shape:
            count *= extent
        if count == 0:
            return torch.empty(shape, dtype=dtype, device="cuda")
        view = types.SimpleNamespace()
        view.__cuda_array_interface__ = {"shape": (count * dtype.itemsize,), "typestr": "|u1", "version": 3,
                                         "data": (self.here(address), False)}
        return torch.as_tensor(view, device="cuda").view(dtype).view(shape)

    def synchronize(self):
        torch.cuda.synchronize()

    def begin(self, behind_mb=0):
        """Brings the context onto the device and begins to measure: at once, or behind the writing of `behind_mb` MiB."""
        if behind_mb and self.written is None:
            self.written = torch.empty(behind_mb << 20, dtype=torch.uint8, device="cuda")
        self.nothing.zero_()
        torch.cuda.synchronize()
        if behind_mb:
            self.written.fill_(42)
        self.events[0].record()

    def end(self):
        self.events[1].record()
        torch.cuda.synchronize()
        return int(self.events[0].elapsed_time(self.events[1]) * 1e6)


# ---- One runner. ----


class Recipe:
    """How modules are made and called at one choice of the task's constants."""

    def __init__(self, text):
        if not text:
            raise ValueError("the task takes arguments that no literal gives: it is none for Python candidates")
        parts = ast.literal_eval(text)
        self.init_args, self.init_kwargs = parts["init"]
        self.dtype = getattr(torch, parts["dtype"])
        self.forward = parts["forward"]
        self.state = parts["state"]
        self.outputs = parts["outputs"]
        self.strides = parts["strides"]


class Runner:
    def __init__(self, connection, device, filters):
        self.connection = connection
        self.device = device
        self.filters = filters
        self.table = 0
        self.module = None
        self.load_error = None
        self.model = None
        self.recipe = None
        self.extensions = {}  # key -> (name, memory file's path)
        self.handed_out = {}  # key -> module
        self.calls = []  # (arguments, outputs) of each call that was laid out
        self.rehearsal = None  # (arguments, outputs) of its own, on a device
        self.call_ns = math.inf  # of the last timed round

    def loop(self):
        try:
            self.device.start()
        except Exception as error:
            self.send(Answer(magic=MAGIC, kind=K_HELLO, system_call=-1, code=RAISED, text=shorten(str(error))))
            return
        self.send(Answer(magic=MAGIC, kind=K_HELLO, system_call=-1))
        while True:
            data, ancillary, _, _ = self.connection.recvmsg(ctypes.sizeof(Command), socket.CMSG_SPACE(8 * 4))
            if len(data) != ctypes.sizeof(Command):
                return
            command = Command.from_buffer_copy(data)
            self.send(self.obey(command, descriptors(ancillary)))
            if self.device.name != "cpu" and command.kind == K_RUN and command.call_count == 0:
                self.look_for_next()

    def look_for_next(self):
        """A timed round follows at once on the empty one that wakes this process: waiting awake spares the round the waking."""
        until = time.perf_counter_ns() + LOOK_NS
        while not select.select([self.connection], [], [], 0)[0] and time.perf_counter_ns() < until:
            pass

    def send(self, answer):
        self.connection.send(bytes(answer))

    def obey(self, command, fds):
        answer = Answer(magic=MAGIC, epoch=command.epoch, system_call=-1)
        if command.kind == K_RUN:
            answer.kind = K_DONE
            self.run(command, answer)
            return answer
        answer.kind = K_DONE if command.kind == K_PREPARE else K_LOADED
        try:
            if command.kind == K_MAP:
                self.map(command, fds)
            elif command.kind == K_LOAD:
                self.load(fds)
            elif command.kind == K_PREPARE:
                self.prepare(command, answer)
            else:
                raise ValueError("unknown command")
        except Exception as error:
            answer.kind = K_LOAD_FAILED
            answer.text = shorten(f"{type(error).__name__}: {error}")
        return answer

    # ---- Memory. ----

    def map(self, command, fds):
        table_fd, inputs_fd, outputs_fd = fds
        self.table = map_memory(table_fd, command.table_bytes, 0, 1)
        header = TableHeader.from_address(self.table)
        self.device.map_regions((TableRegion * header.region_count).from_address(self.table + header.regions), inputs_fd,
                                outputs_fd)
        for fd in fds:
            os.close(fd)

    def argument(self, index, described, address):
        tensor = described[index]
        view = self.device.tensor(address, DTYPES[tensor.dtype], tuple(tensor.shape[: tensor.ndim]))
        strides = self.recipe.strides.get(index)
        if strides is None:
            return view
        laid_out = torch.empty_strided(view.shape, strides, dtype=view.dtype, device=view.device)
        return laid_out.copy_(view)

    def lay_out(self, first, count):
        """Arguments and output buffers of calls, as the table says now."""
        header = TableHeader.from_address(self.table)
        described = (TableTensor * header.tensor_count).from_address(self.table + header.tensors)
        addresses = (u64 * (header.call_count * header.tensor_count)).from_address(self.table + header.addresses)
        calls = []
        for call in range(first, first + count):
            at = addresses[call * header.tensor_count : (call + 1) * header.tensor_count]
            arguments = [
                self.argument(value, described, at[value]) if kind == "tensor" else value
                for kind, value in self.recipe.forward
            ]
            outputs = [self.argument(index, described, at[index]) for index in self.recipe.outputs]
            calls.append((arguments, outputs))
        return calls

    def state_dict(self, call):
        header = TableHeader.from_address(self.table)
        described = (TableTensor * header.tensor_count).from_address(self.table + header.tensors)
        addresses = (u64 * (header.call_count * header.tensor_count)).from_address(self.table + header.addresses)
        base = call * header.tensor_count
        return {name: self.argument(index, described, addresses[base + index]) for name, index in self.recipe.state}

    # ---- The candidate. ----

    def load(self, fds):
        with os.fdopen(fds[0], "rb") as file:
            bundle = file.read()
        magic, length = struct.unpack_from("<8sQ", bundle)
        if magic != b"HONEPY1\n":
            raise ValueError("no bundle")
        index = json.loads(bundle[16 : 16 + length])
        blobs = 16 + length
        for item in index["extensions"]:
            fd = os.memfd_create(item["name"])
            begin = blobs + item["offset"]
            os.write(fd, bundle[begin : begin + item["bytes"]]) if item["bytes"] < 1 << 20 else write_all(
                fd, bundle[begin : begin + item["bytes"]])
            self.extensions[item["key"]] = (item["name"], f"/proc/self/fd/{fd}")
        del bundle
        compiles = index["triton"] and self.device.name != "cpu"  # there its kernels are interpreted
        if compiles:
            write_only_below(use_own_folder())
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        install_filter(self.filters.compiling if compiles else self.filters.plain)
        torch.utils.cpp_extension.load_inline = self.load_inline
        if MUSA_EXTENSION is not None:
            MUSA_EXTENSION.load_inline = lambda *args, **kwargs: self.load_inline(*args, musa=True, **kwargs)
        torch.utils.cpp_extension.load = self.load_files
        self.execute(index["source"])

    def execute(self, source):
        linecache.cache[CANDIDATE_FILE] = (len(source), None, source.splitlines(True), CANDIDATE_FILE)
        module = types.ModuleType("candidate")
        module.__file__ = CANDIDATE_FILE
        sys.modules["candidate"] = module
        try:
            exec(compile(source, CANDIDATE_FILE, "exec"), module.__dict__)
            self.module = module
        except Exception as error:  # told when the module is to be made: what was built is not at fault
            self.load_error = describe_error(error, "the module")

    def hand_out(self, request):
        key = torch_extension.key_of(request)
        if key not in self.handed_out:
            if key not in self.extensions:
                raise RuntimeError("no extension was built from these sources before the run")
            name, path = self.extensions[key]
            loader = importlib.machinery.ExtensionFileLoader(name, path)
            spec = importlib.util.spec_from_loader(name, loader, origin=path)
            extension = importlib.util.module_from_spec(spec)
            loader.exec_module(extension)
            self.handed_out[key] = extension
        return self.handed_out[key]

    def load_inline(self, *args, musa=False, **kwargs):
        try:
            return self.hand_out(torch_extension.from_inline(args, kwargs, musa))
        except torch_extension.Unusable as error:
            raise RuntimeError(f"load_inline: {error}") from None

    def load_files(self, *args, **kwargs):
        def read(path):
            with open(path) as file:
                return file.read()

        try:
            return self.hand_out(torch_extension.from_files(args, kwargs, read))
        except torch_extension.Unusable as error:
            raise RuntimeError(f"load: {error}") from None

    def prepare(self, command, answer):
        try:
            if command.fresh:
                self.make_model(command.first_call)
            self.calls = self.lay_out(command.first_call, command.call_count)
            if command.fresh and self.device.name != "cpu":
                self.rehearsal = copy_of(self.calls[0]) if self.calls else None
            self.device.synchronize()
        except Exception as error:
            self.fail(answer, error, "preparing")

    def make_model(self, call):
        self.calls, self.model = [], None
        if self.load_error is not None:
            raise CandidateError(self.load_error)
        header = TableHeader.from_address(self.table)
        self.recipe = Recipe(ctypes.string_at(self.table + header.recipe, header.recipe_bytes).decode())
        try:
            model = self.module.ModelNew(*self.recipe.init_args, **self.recipe.init_kwargs)
        except Exception as error:
            raise CandidateError(describe_error(error, "ModelNew(...)"), error) from None
        if isinstance(model, torch.nn.Module):
            if self.recipe.dtype is not torch.float32:
                model = model.to(self.recipe.dtype)
            model = model.to(self.device.name)
        state = self.state_dict(call)
        if state or isinstance(model, torch.nn.Module):
            self.load_state(model, state)
        self.model = model

    def load_state(self, model, state):
        own = model.state_dict() if isinstance(model, torch.nn.Module) else {}
        missing = [name for name in state if name not in own]  # of the reference's, what the candidate has not
        extra = [name for name in own if name not in state]
        if missing or extra:
            parts = [f"it lacks {', '.join(missing[:4])}" if missing else "", f"it adds {', '.join(extra[:4])}" if extra else ""]
            raise CandidateError("ModelNew's parameters are not the reference's: " + "; ".join(p for p in parts if p))
        for name, value in state.items():
            if own[name].shape != value.shape:
                raise CandidateError(f"ModelNew's `{name}` is {list(own[name].shape)}, the reference's {list(value.shape)}")
        if state:
            model.load_state_dict(state, strict=True)

    # ---- Calls. ----

    def fail(self, answer, error, what):
        memory = isinstance(error, (torch.OutOfMemoryError, MemoryError)) or isinstance(
            getattr(error, "cause", None), (torch.OutOfMemoryError, MemoryError))
        wrong = isinstance(error, WrongOutput)
        answer.code = OUT_OF_MEMORY if memory else WRONG_OUTPUT if wrong else RAISED
        told = isinstance(error, (WrongOutput, CandidateError))
        answer.text = shorten(str(error) if told else describe_error(error, what))

    def run(self, command, answer):
        try:
            if command.call_count == 0:  # what a message costs, with all that surrounds calls
                self.rehearse()
                self.device.begin()
                answer.process_ns = self.device.end()
            elif command.checked:
                self.run_checked(command, answer)
            else:
                self.run_timed(command.first_call, command.call_count, command.behind_mb, answer)
        except Exception as error:
            self.fail(answer, error, "forward")

    def rehearse(self):
        """One call on data of its own before a timed round, so that an interpreter that has slept does not look for its code in
        memory while it is timed; the reference has such a call, too."""
        if self.rehearsal is None or self.call_ns > REHEARSED_NS:
            return
        arguments, outputs = self.rehearsal
        for output, value in zip(outputs, flatten(self.model(*arguments))):
            output.copy_(value)

    def run_timed(self, first, count, behind_mb, answer):
        model = self.model
        calls = self.calls[first : first + count]
        collects = gc.isenabled()
        gc.disable()  # a collection takes longer than most calls
        self.device.begin(behind_mb)
        for arguments, outputs in calls:
            result = model(*arguments)
            if isinstance(result, torch.Tensor) and len(outputs) == 1:
                outputs[0].copy_(result)
                continue
            for output, value in zip(outputs, flatten(result)):
                output.copy_(value)
        answer.process_ns = self.device.end()
        self.call_ns = answer.process_ns / count
        if collects:
            gc.enable()

    def run_checked(self, command, answer):
        (arguments, outputs), = self.lay_out(command.first_call, 1)
        self.device.begin()
        names = {extension.__name__ for extension in self.handed_out.values()} | {
            name for name, _ in self.extensions.values()}
        with Watch() as watch, CustomCalls(names) as custom:
            result = self.model(*arguments)
        results = flatten(result)
        self.check_form(results, outputs)
        for output, value in zip(outputs, results):
            output.copy_(value)
        answer.process_ns = self.device.end()
        answer.custom_calls = custom.count + watch.custom
        answer.library_calls = sum(watch.library.values())
        answer.text = shorten(", ".join(f"{name} x{count}" if count > 1 else name for name, count in watch.library.items()))

    def check_form(self, results, outputs):
        if len(results) != len(outputs):
            raise WrongOutput(f"forward returns {len(results)} tensors, not {len(outputs)}")
        for position, (value, output) in enumerate(zip(results, outputs)):
            name = "the output" if len(outputs) == 1 else f"output {position}"
            if type(value) not in (torch.Tensor, torch.nn.Parameter):
                raise WrongOutput(f"{name} is a {type(value).__name__}, not a plain tensor")
            if value.device.type != output.device.type:
                raise WrongOutput(f"{name} is on {value.device}, not on {output.device}")
            if value.shape != output.shape:
                raise WrongOutput(f"{name} has shape {list(value.shape)}, not {list(output.shape)}")
            if value.dtype != output.dtype:
                raise WrongOutput(f"{name} is {short(value.dtype)}, not {short(output.dtype)}")
            if value.untyped_storage().data_ptr() == output.untyped_storage().data_ptr():
                raise WrongOutput(f"{name} lies in the judge's memory")


class CandidateError(Exception):
    """Told as it is; `cause` is what was raised, where something was."""

    def __init__(self, message, cause=None):
        super().__init__(message)
        self.cause = cause


def short(dtype):
    return str(dtype).removeprefix("torch.")


def copy_of(call):
    """A call's arguments and outputs in other memory; None where that would be much."""
    tensors = [value for part in call for value in part if isinstance(value, torch.Tensor)]
    if sum(tensor.numel() * tensor.element_size() for tensor in tensors) > REHEARSED_BYTES:
        return None
    return tuple([value.clone() if isinstance(value, torch.Tensor) else value for value in part] for part in call)


def flatten(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [tensor for item in result for tensor in flatten(item)]
    raise WrongOutput(f"forward returns {type(result).__name__} where a tensor belongs")


# ---- The process. ----


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_whole(fd):
    if fd < 0:
        return b""
    with os.fdopen(fd, "rb") as file:
        return file.read()


def descriptors(ancillary):
    fds = []
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds += struct.unpack(f"{len(data) // 4}i", data[: len(data) // 4 * 4])
    return fds


def own_folder(pid):
    """For the files of a candidate that compiles: of a name that nobody else writes to while it lives, and gone when it is."""
    return f"/tmp/candidate-{pid}"


def use_own_folder():
    """What an earlier candidate left in a cache of compiled kernels would be run as this one's."""
    folder = own_folder(os.getpid())
    remove_folder(folder)
    os.mkdir(folder, 0o700)
    os.environ.update(TRITON_CACHE_DIR=folder + "/triton", TRITON_HOME=folder, TMPDIR=folder, HOME=folder,
                      TORCHINDUCTOR_CACHE_DIR=folder + "/inductor")
    return folder


def remove_folder(folder):
    """With all that is in it, as far as that can be done, however deep its folders lie and whatever their modes are: each is
    moved beside the outermost before its own turn."""
    pending, moved = [folder], 0
    while pending:
        path = pending.pop()
        try:
            os.chmod(path, 0o700)
            with os.scandir(path) as found:
                entries = list(found)
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    moved += 1
                    os.chmod(entry.path, 0o700)
                    os.rename(entry.path, f"{folder}.{moved}")
                    pending.append(f"{folder}.{moved}")
                else:
                    os.unlink(entry.path)
            os.rmdir(path)
        except OSError:
            pass


# landlock(7): system calls, and rights over files that change something.
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
ALL_CHANGES = WRITE_FILE | TRUNCATE | sum(1 << bit for bit in range(4, 14))  # removals, every kind of file, moves between folders


def write_only_below(folder):
    """This process and all that it starts change files below `folder` alone, for good, and look into no process outside. Devices
    and its own entries of /proc stay open. False: the kernel has no Landlock that knows moves between folders (5.19)."""
    abi = libc.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if abi < 2:
        return False
    changes = ALL_CHANGES if abi >= 3 else ALL_CHANGES & ~TRUNCATE
    rules = libc.syscall(LANDLOCK_CREATE, struct.pack("=Q", changes), ctypes.c_size_t(8), ctypes.c_uint32(0))
    if rules < 0:
        raise OSError(ctypes.get_errno(), "landlock_create_ruleset")
    for path, allowed in ((folder, changes), ("/dev", changes & (WRITE_FILE | TRUNCATE)), ("/proc", WRITE_FILE)):
        parent = os.open(path, os.O_PATH)
        if libc.syscall(LANDLOCK_ADD, rules, 1, struct.pack("=Qi", allowed, parent), 0) != 0:
            raise OSError(ctypes.get_errno(), f"landlock_add_rule: {path}")
        os.close(parent)
    if libc.syscall(LANDLOCK_RESTRICT, rules, 0) != 0:
        raise OSError(ctypes.get_errno(), "landlock_restrict_self")
    os.close(rules)
    return True


def install_filter(program):
    """Applies a filter of 8-byte instructions to this process for good."""
    if not program:
        return
    PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    filter_program = Program(len(program) // 8, program)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter_program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot filter system calls")


def become_runner(fds, request, options, filters):
    """The forked process, to its end."""
    libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    runner_socket, output = fds
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(runner_socket, 3)
    os.closerange(4, 1024)
    for kind, value in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 1024)):
        resource.setrlimit(kind, (value, value))
    if request.data_limit_bytes and not options.gpu:
        resource.setrlimit(resource.RLIMIT_DATA, (request.data_limit_bytes, request.data_limit_bytes))
    if request.cpu_limit_s:
        resource.setrlimit(resource.RLIMIT_CPU, (request.cpu_limit_s, request.cpu_limit_s))
    # SEQPACKET: found out from the descriptor itself.
    device = CudaDevice(options.gpu[1], request.data_limit_bytes) if options.gpu else CpuDevice()
    Runner(socket.socket(fileno=3), device, filters).loop()


class Zygote:
    def __init__(self, control, options, filters):
        self.control = control
        self.options = options
        self.filters = filters
        self.poller = select.poll()
        self.poller.register(control, select.POLLIN)
        self.runners = {}  # pidfd -> (pid, id)

    def loop(self):
        while True:
            for fd, _ in self.poller.poll():
                if fd in self.runners:
                    self.report_end(fd)
                elif not self.fork():
                    return

    def fork(self):
        try:
            data, ancillary, _, _ = self.control.recvmsg(ctypes.sizeof(ForkRequest), socket.CMSG_SPACE(8 * 4))
        except ConnectionError:
            return False
        if len(data) != ctypes.sizeof(ForkRequest):
            return False
        request, fds = ForkRequest.from_buffer_copy(data), descriptors(ancillary)
        try:
            pid = os.fork()
        except OSError as error:
            self.control.send(bytes(RunnerEnded(magic=MAGIC, id=request.id, fork_error=error.errno)))
            pid = -1
        if pid == 0:
            code = 1
            try:
                become_runner(fds, request, self.options, self.filters)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        if pid > 0:
            pid_fd = os.pidfd_open(pid)
            self.runners[pid_fd] = (pid, request.id)
            self.poller.register(pid_fd, select.POLLIN)
        for fd in fds:
            os.close(fd)
        return True

    def report_end(self, pid_fd):
        pid, runner_id = self.runners.pop(pid_fd)
        self.poller.unregister(pid_fd)
        os.close(pid_fd)
        _, status, usage = os.wait4(pid, 0)
        exited = os.WIFEXITED(status)
        ended = RunnerEnded(magic=MAGIC, id=runner_id, exited=exited, peak_rss_kb=usage.ru_maxrss,
                            status=os.WEXITSTATUS(status) if exited else os.WTERMSIG(status))
        self.end_what_is_left()
        if self.options.gpu:
            remove_folder(own_folder(pid))
        self.control.send(bytes(ended))

    def end_what_is_left(self):
        """Ends children that are no runners: what a runner started and left is handed on to this process."""
        known = {pid for pid, _ in self.runners.values()}
        while left := [pid for pid in children() if pid not in known]:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            for pid in left:
                os.waitpid(pid, 0)


def children():
    """Processes whose parent is this one."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:  # it ended meanwhile
            continue
        if parent == os.getpid():
            found.append(int(name))
    return found


def warm_up():
    """Brings in what torch loads when it is first used, before the first fork."""
    with Watch(), CustomCalls(set()):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        model(torch.zeros(1, 2)).softmax(1).copy_(torch.zeros(1, 2))
    model.load_state_dict(model.state_dict())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("control", type=int)
    parser.add_argument("--gpu", nargs=2)
    parser.add_argument("--core", type=int, default=-1)
    parser.add_argument("--filter", type=int, default=-1)
    parser.add_argument("--compiling-filter", type=int, default=-1)
    options = parser.parse_args()
    if options.core >= 0:
        os.sched_setaffinity(0, {options.core})
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    control = socket.socket(fileno=options.control)
    filters = types.SimpleNamespace(plain=read_whole(options.filter), compiling=read_whole(options.compiling_filter))
    libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: runners of the same user cannot read this process
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what runners leave behind
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    torch.set_grad_enabled(False)
    global MUSA_EXTENSION
    MUSA_EXTENSION = offer_torch_musa(options.gpu is not None)
    warm_up()
    gc.collect()
    gc.freeze()
    gc.disable()
    control.send(bytes(ZygoteReady(magic=MAGIC, seccomp=1 if filters.plain else 0)))
    Zygote(control, options, filters).loop()


if __name__ == "__main__":
    main()
