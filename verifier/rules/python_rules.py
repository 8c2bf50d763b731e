"""Rules over the syntax tree of a Python candidate (torch, triton). Never runs or imports it.

    python_rules.py < candidate.py      prints a JSON list of {"rule", "evidence"}
    python_rules.py --list              prints the names of all rules, one a line
    check(tree)                         the same for a parsed module, for whoever has one

Names are followed through imports and plain assignments ("f = torch.compile; f(model)"); what is computed at run time is
the business of the checks at run time. docs/rules.md describes each rule; verifier/rules/rule_table.h holds its severity.
"""

import ast
import json
import sys

RULES = (
    "py_syntax", "no_custom_kernel", "py_dynamic_code", "py_frames", "py_modules", "py_monkey_patch", "py_process", "py_files",
    "py_exit", "py_lazy_tensor", "py_compile", "py_precision_switch", "py_state_of_torch", "py_bypass", "py_cache",
    "py_stream", "py_build_flags", "py_framework_compute",
)

# Dotted names, or prefixes that end in a dot -> rule, None for what is harmless of them. The longest match counts.
NAMES = {
    "platform.system": None, "threading.Lock": None, "threading.RLock": None, "threading.local": None, "shutil.which": None,
    "inspect.cleandoc": None, "inspect.signature": None, "traceback.print_exc": None, "traceback.format_exc": None,
    "importlib.metadata.version": None,
    "exec": "py_dynamic_code", "eval": "py_dynamic_code", "compile": "py_dynamic_code", "__import__": "py_dynamic_code",
    "importlib.": "py_dynamic_code", "marshal.": "py_dynamic_code", "pickle.": "py_dynamic_code", "dill.": "py_dynamic_code",
    "codecs.decode": "py_dynamic_code", "base64.": "py_dynamic_code", "runpy.": "py_dynamic_code", "code.": "py_dynamic_code",
    "dis.": "py_dynamic_code", "codeop.": "py_dynamic_code", "unittest.": "py_frames", "posix.": "py_process",
    "types.FunctionType": "py_dynamic_code", "types.CodeType": "py_dynamic_code", "builtins.": "py_dynamic_code",
    "globals": "py_frames", "locals": "py_frames", "vars": "py_frames", "breakpoint": "py_frames",
    "inspect.": "py_frames", "gc.": "py_frames", "traceback.": "py_frames", "tracemalloc.": "py_frames",
    "sys._getframe": "py_frames", "sys._current_frames": "py_frames", "sys.settrace": "py_frames",
    "sys.setprofile": "py_frames", "sys.getprofile": "py_frames", "sys.gettrace": "py_frames", "sys.monitoring.": "py_frames",
    "sys.exc_info": "py_frames", "weakref.": "py_frames", "faulthandler.": "py_frames",
    "sys.modules": "py_modules", "sys.path": "py_modules", "sys.path.": "py_modules", "sys.meta_path": "py_modules",
    "sys.path_hooks": "py_modules", "sys.argv": "py_modules", "site.": "py_modules", "pkgutil.": "py_modules",
    "threading.": "py_process", "_thread.": "py_process", "multiprocessing.": "py_process", "concurrent.": "py_process",
    "asyncio.": "py_process", "subprocess.": "py_process", "socket.": "py_process", "signal.": "py_process",
    "ctypes.": "py_process", "_ctypes.": "py_process", "cffi.": "py_process", "os.system": "py_process",
    "os.popen": "py_process", "os.fork": "py_process", "os.kill": "py_process", "os.exec": "py_process",
    "os.spawn": "py_process", "pty.": "py_process",
    "torch.multiprocessing.": "py_process", "torch.distributed.": "py_process", "torch.jit.fork": "py_process",
    "torch.futures.": "py_process", "requests.": "py_process", "urllib.": "py_process", "http.": "py_process",
    "pip.": "py_process",
    "open": "py_files", "io.open": "py_files", "os.open": "py_files", "os.remove": "py_files", "os.unlink": "py_files",
    "os.rename": "py_files", "os.listdir": "py_files", "os.walk": "py_files", "os.scandir": "py_files", "os.pipe": "py_files",
    "os.write": "py_files", "os.read": "py_files", "os.dup": "py_files", "shutil.": "py_files", "tempfile.": "py_files",
    "mmap.": "py_files", "pathlib.": "py_files", "glob.": "py_files", "torch.save": "py_files", "torch.load": "py_files",
    "torch.from_file": "py_files", "torch.hub.": "py_files", "numpy.load": "py_files", "numpy.memmap": "py_files",
    "numpy.save": "py_files", "sqlite3.": "py_files", "shelve.": "py_files",
    "sys.exit": "py_exit", "os._exit": "py_exit", "os.abort": "py_exit", "exit": "py_exit", "quit": "py_exit",
    "atexit.": "py_exit", "SystemExit": "py_exit",
    "torch.compile": "py_compile", "torch._dynamo.": "py_compile", "torch._inductor.": "py_compile",
    "torch.jit.script": "py_compile", "torch.jit.trace": "py_compile", "torch.export.": "py_compile",
    "torch.fx.": "py_compile",
    "torch.set_float32_matmul_precision": "py_precision_switch", "torch.autocast": "py_precision_switch",
    "torch.amp.autocast": "py_precision_switch", "torch.cuda.amp.autocast": "py_precision_switch",
    "torch.set_default_dtype": "py_precision_switch", "torch.set_default_tensor_type": "py_precision_switch",
    "torch.manual_seed": "py_state_of_torch", "torch.seed": "py_state_of_torch", "torch.set_rng_state": "py_state_of_torch",
    "torch.cuda.manual_seed": "py_state_of_torch", "torch.cuda.set_rng_state": "py_state_of_torch",
    "torch.random.": "py_state_of_torch", "random.seed": "py_state_of_torch", "numpy.random.seed": "py_state_of_torch",
    "torch.use_deterministic_algorithms": "py_state_of_torch", "torch.set_num_threads": "py_state_of_torch",
    "torch.set_default_device": "py_state_of_torch", "torch.cuda.set_device": "py_state_of_torch",
    "torch.cuda.empty_cache": "py_state_of_torch", "torch.cuda.memory.": "py_state_of_torch",
    "torch._subclasses.": "py_lazy_tensor", "torch.utils._python_dispatch.": "py_lazy_tensor",
    "torch.Tensor._make_subclass": "py_lazy_tensor", "torch.overrides.": "py_lazy_tensor",
    "torch.utils._pytree.": "py_lazy_tensor", "torch.library.": "py_monkey_patch",
    "torch._C._len_torch_dispatch_stack": "py_lazy_tensor", "torch._C._get_dispatch_stack_at": "py_lazy_tensor",
    "torch._C._dispatch_tls_is_dispatch_key_included": "py_lazy_tensor", "torch.ops.load_library": "py_files",
    "torch.cuda.Stream": "py_stream", "torch.cuda.stream": "py_stream", "torch.cuda.ExternalStream": "py_stream",
    "torch.cuda.graph": "py_stream", "torch.cuda.CUDAGraph": "py_stream", "torch.cuda.make_graphed_callables": "py_stream",
}

# Attributes, of whatever object.
ATTRIBUTES = {
    "__globals__": "py_frames", "__closure__": "py_frames", "__code__": "py_frames", "f_locals": "py_frames",
    "f_globals": "py_frames", "f_back": "py_frames", "gi_frame": "py_frames", "tb_frame": "py_frames",
    "__subclasses__": "py_frames", "__builtins__": "py_dynamic_code", "__loader__": "py_modules", "__spec__": "py_modules",
    "_current_frames": "py_frames", "settrace": "py_frames", "setprofile": "py_frames", "system": "py_process",
    "popen": "py_process", "fork": "py_process", "execv": "py_process", "spawnv": "py_process", "_exit": "py_exit",
    "_python_dispatch": "py_lazy_tensor", "_get_current_dispatch_mode": "py_lazy_tensor",
    "_make_subclass": "py_lazy_tensor", "_make_wrapper_subclass": "py_lazy_tensor", "__torch_function__": "py_lazy_tensor",
    "__torch_dispatch__": "py_lazy_tensor", "_getframe": "py_frames",
    "allow_tf32": "py_precision_switch", "allow_fp16_reduced_precision_reduction": "py_precision_switch",
    "allow_bf16_reduced_precision_reduction": "py_precision_switch", "fp32_precision": "py_precision_switch",
    "__self__": "py_dynamic_code", "__getattribute__": "py_dynamic_code", "__setattr__": "py_monkey_patch",
    "__delattr__": "py_monkey_patch", "__traceback__": "py_frames",
}

# Modules that others happen to have: torch.sys is sys.
ROOTS = frozenset(name.split(".")[0] for name in NAMES if "." in name) - {"torch", "code", "signal", "random", "types"}
# Functions that take attributes by their names.
GETTERS = ("operator.attrgetter", "operator.methodcaller")

# Modules of the harness and names of a task's own module.
HARNESS = ("hone", "torch_runner", "reference_worker", "kernelbench", "candidate", "reference", "__main__")

KERNEL_MAKERS = ("load_inline", "CUDAExtension", "RawModule", "RawKernel", "_compile_kernel")

# Computing functions of torch; plumbing (views, allocation, copies) is not among them.
COMPUTE = frozenset("""
matmul mm bmm addmm addmv baddbmm einsum tensordot dot mv linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d
conv_transpose3d softmax log_softmax relu gelu silu sigmoid tanh exp log sqrt rsqrt pow sum mean var std norm max min amax
amin argmax argmin sort topk cumsum cumprod layer_norm group_norm batch_norm instance_norm rms_norm
scaled_dot_product_attention embedding dropout max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d
adaptive_avg_pool2d interpolate cross_entropy nll_loss mse_loss kl_div cosine_similarity add sub mul div clamp where
""".split())

# What a candidate may say to the build through its environment, and is not heard.
BUILD_VARIABLES = ("TORCH_CUDA_ARCH_LIST", "MAX_JOBS", "CUDA_HOME", "TORCH_EXTENSIONS_DIR", "CC", "CXX")

BAD_FLAGS = ("-include", "-imacros", "-I", "-isystem", "-fplugin", "-specs", "-wrapper", "-L", "-l", "-Wl,", "@", "-B", "-Xlinker",
             "--compiler-bindir", "-ccbin", "--dryrun", "--keep")


class Scan(ast.NodeVisitor):
    def __init__(self):
        self.found = {}
        self.names = {}  # local name -> dotted origin
        self.kernel = False
        self.in_forward = 0
        self.bound = set()  # by imports, wherever they stand: a function may use what is imported below it
        self.called = set()  # ids of what calls call
        self.read = set()  # names that are read somewhere
        self.in_class = 0
        self.locals = []  # names that each function around binds: values, were they called like a builtin
        self.renamed = False  # whether something may give the module another name
        self.pointers = []  # calls of data_ptr(), id(), hash()
        self.classes = set()

    # ---- What a name stands for. ----

    def dotted(self, node):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Call) and self.dotted(node.func) == "__import__" and node.args:
            first = node.args[0]
            base = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
        elif isinstance(node, ast.Name):
            # What no import binds is a value, however it is called: `code`, `signal`.
            base = self.names.get(node.id, node.id if node.id in self.bound or not parts else f"<{node.id}>")
        else:
            return ""
        return ".".join([base] + parts[::-1])

    def hit(self, rule, node, what):
        self.found.setdefault(rule, f"line {getattr(node, 'lineno', 1)}: {what[:120]}")

    def look_up(self, name, node):
        if not name:
            return
        best = ""
        for known in NAMES:
            whole = name == known or (known.endswith(".") and (name + ".").startswith(known))
            if (whole or name.startswith(known + ".")) and len(known) > len(best):
                best = known
            elif known in ("os.exec", "os.spawn") and name.startswith(known):
                best = known
        if best and NAMES[best] is not None:
            self.hit(NAMES[best], node, name)
        parts = name.split(".")
        for i in range(1, len(parts)):
            if parts[i] in ROOTS and parts[0] in self.modules():
                self.look_up(".".join(parts[i:]), node)
                break

    def collect(self, tree):
        """The names that imports bind, and those that are read."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.read.add(node.id)
            elif not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)):
                self.renamed |= any(value == "__name__" for _, value in ast.iter_fields(node))
            if isinstance(node, ast.Import):
                for item in node.names:
                    self.bind(item.asname or item.name.split(".")[0], item.name if item.asname else item.name.split(".")[0])
            elif isinstance(node, ast.ImportFrom):
                for item in node.names:
                    if item.name == "*":
                        self.bind_all(node.module or "")
                    else:
                        self.bind(item.asname or item.name, f"{node.module or ''}.{item.name}")

    def bind(self, name, origin):
        self.bound.add(name)
        self.names[name] = origin

    def bind_all(self, module):
        """`from os import *`: of its names, those that a rule knows."""
        for known in NAMES:
            if known.startswith(module + "."):
                part = known[len(module) + 1 :].split(".")[0]
                self.bind(part, f"{module}.{part}")

    def visit_Import(self, node):
        """What is never read does nothing, and reading speaks for itself; but a class's attribute is read in other ways."""
        for item in node.names:
            if self.in_class > 0:
                self.look_up(item.name, node)
            self.check_harness(item.name, node)

    def visit_ImportFrom(self, node):
        module = node.module or ""
        self.check_harness(module or ".", node)
        if node.level > 0:
            self.hit("py_modules", node, "from " + "." * node.level + module)
        for item in node.names:
            if self.in_class > 0 or item.name == "*" or (item.asname or item.name) in self.read:
                self.look_up(f"{module}.{item.name}", node)

    def check_harness(self, module, node):
        if module.split(".")[0] in HARNESS:
            self.hit("py_modules", node, f"import {module}")

    def visit_Name(self, node):
        if isinstance(node.ctx, ast.Load):
            self.check_hidden(node)
            if node.id in ("getattr", "setattr", "delattr") and id(node) not in self.called:
                self.hit("py_dynamic_code", node, f"{node.id} under another name")
            if not any(node.id in names for names in self.locals):
                self.look_up(self.names.get(node.id, node.id if node.id in NAMES else ""), node)

    def check_hidden(self, node):
        if node.id in ("__builtins__", "__loader__", "__spec__"):
            self.hit(ATTRIBUTES[node.id], node, node.id)

    def visit_Attribute(self, node):
        name = self.dotted(node)
        if node.attr in ATTRIBUTES and NAMES.get(name, "") is not None:
            self.hit(ATTRIBUTES[node.attr], node, ast.unparse(node))
        self.look_up(name, node)
        if name.startswith("torch.backends.") and not isinstance(node.ctx, ast.Load):
            self.hit("py_state_of_torch", node, name)
        if node.attr == "__dict__" and name.split(".")[0] in self.modules():
            self.hit("py_dynamic_code", node, name)
        if isinstance(node.value, ast.Name):
            self.check_hidden(node.value)  # what it stands for was looked up with what follows it
        else:
            self.visit(node.value)

    def visit_MatchClass(self, node):
        for attribute in node.kwd_attrs:
            if attribute in ATTRIBUTES:
                self.hit(ATTRIBUTES[attribute], node, f"case ({attribute}=...)")
        self.generic_visit(node)

    # ---- Assignments to what belongs to others. ----

    def check_target(self, target, node):
        for part in ast.walk(target) if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            key = part.slice.value if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant) else None
            while isinstance(part, ast.Subscript):
                part = part.value
            if key in BUILD_VARIABLES and self.dotted(part) == "os.environ":
                continue
            if not isinstance(part, ast.Attribute):
                continue
            origin = self.dotted(part)
            root = origin.split(".")[0]
            if root in self.modules():
                rule = "py_state_of_torch" if origin.startswith("torch.backends.") else "py_monkey_patch"
                self.hit(ATTRIBUTES.get(part.attr, rule), node, origin)

    def modules(self):
        return {origin.split(".")[0] for origin in self.names.values()}

    def visit_Assign(self, node):
        for target in node.targets:
            self.check_target(target, node)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            origin = self.dotted(node.value)
            if "." in origin and origin.split(".")[0] in self.modules():
                self.names[node.targets[0].id] = origin
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        self.check_target(node.target, node)
        self.generic_visit(node)

    def visit_Delete(self, node):
        for target in node.targets:
            self.check_target(target, node)
        self.generic_visit(node)

    # ---- Definitions. ----

    def visit_ClassDef(self, node):
        self.classes.add(node.name)
        for base in node.bases:
            name = self.dotted(base)
            if name.split(".")[-1] == "Tensor" and name.startswith("torch"):
                self.hit("py_lazy_tensor", node, f"class {node.name}({name})")
            if name == "Model" and "Model" not in self.classes:
                self.hit("py_modules", node, f"class {node.name}(Model): the reference")
        self.in_class += 1
        self.generic_visit(node)
        self.in_class -= 1

    def visit_If(self, node):
        """What runs only where the module is a program does not run: it is imported."""
        test = node.test
        main = (isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
                and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq)
                and isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value == "__main__")
        if not main or self.renamed:
            return self.generic_visit(node)
        for part in node.orelse:
            self.visit(part)

    def visit_FunctionDef(self, node):
        for decorator in node.decorator_list:
            name = self.dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if name.startswith("triton.") and name.split(".")[-1] == "jit":
                self.kernel = True
        if node.name in ATTRIBUTES:
            self.hit(ATTRIBUTES[node.name], node, f"def {node.name}")
        around = (*node.decorator_list, *getattr(node, "type_params", ()), node.args, node.returns)
        for part in around:
            if part is not None:
                self.visit(part)
        forward = node.name == "forward"
        self.in_forward += forward
        self.locals.append(bound_in(node) - self.bound)
        for part in node.body:
            self.visit(part)
        self.locals.pop()
        self.in_forward -= forward

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Try(self, node):
        for handler in node.handlers:
            broad = handler.type is None or self.dotted(handler.type) in ("Exception", "BaseException", "RuntimeError")
            if broad and not any(isinstance(part, ast.Raise) for part in ast.walk(handler)):
                self.hit("py_bypass", handler, "a handler that goes on after any error")
        self.generic_visit(node)

    # ---- Calls. ----

    def visit_Call(self, node):
        self.called.add(id(node.func))
        name = self.dotted(node.func)
        last = name.split(".")[-1] if name else getattr(node.func, "attr", "")
        if last in KERNEL_MAKERS or name.endswith("cpp_extension.load"):
            self.kernel = True
            self.check_flags(node)
        if name == "getattr" or name == "setattr" or name == "delattr":
            self.check_getattr(name, node)
        if name in GETTERS:
            self.check_getter(name, node)
        if last in ("data_ptr", "__hash__") or name in ("id", "hash"):
            self.pointers.append(node)
        if self.in_forward and (name.startswith("torch.") or self.is_method_of_value(node)) and last in COMPUTE:
            self.hit("py_framework_compute", node, name or f".{last}(...)")
        self.generic_visit(node)

    @staticmethod
    def is_method_of_value(node):
        return isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name)

    def check_getattr(self, name, node):
        if len(node.args) < 2:
            return
        what = self.dotted(node.args[0])
        foreign = what.split(".")[0] in self.modules()
        key = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
        if name != "getattr" and foreign:
            self.hit("py_monkey_patch", node, ast.unparse(node))
        elif isinstance(key, str) and key in ATTRIBUTES:
            self.hit(ATTRIBUTES[key], node, ast.unparse(node))
        elif isinstance(key, str) and foreign:
            self.look_up(f"{what}.{key}", node)
        elif key is None and (foreign or not self.is_own(node.args[0])):
            self.hit("py_dynamic_code", node, ast.unparse(node))

    @staticmethod
    def is_own(node):
        """Part of the module itself, whose parts may well have numbered names."""
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        return isinstance(node, ast.Name) and node.id in ("self", "cls")

    def check_getter(self, name, node):
        for argument in node.args:
            text = argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else None
            if text is None:
                self.hit("py_dynamic_code", node, ast.unparse(node))
                continue
            for part in text.split("."):
                if part in ATTRIBUTES:
                    self.hit(ATTRIBUTES[part], node, f"{name}({text!r})")

    def check_flags(self, node):
        for item in node.keywords:
            if item.arg in ("extra_include_paths", "extra_ldflags") and not self.is_empty(item.value):
                self.hit("py_build_flags", node, item.arg)
            if item.arg in ("extra_cuda_cflags", "extra_cflags", "extra_sycl_cflags"):
                for part in ast.walk(item.value):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value.startswith(BAD_FLAGS):
                        self.hit("py_build_flags", node, part.value)

    @staticmethod
    def is_empty(node):
        return isinstance(node, (ast.List, ast.Tuple)) and not node.elts or isinstance(node, ast.Constant) and not node.value


def bound_in(function):
    """Parameters and names that a function assigns, but not those that it says are of the module."""
    parts = [part for statement in function.body for part in ast.walk(statement)]
    others = {name for part in parts if isinstance(part, (ast.Global, ast.Nonlocal)) for name in part.names}
    assigned = {part.id for part in own_parts(function) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return ({argument.arg for argument in named if argument is not None} | assigned) - others


def own_parts(function):
    """What a function consists of, without the functions, classes and comprehensions inside it, whose names are their own."""
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp,
              ast.GeneratorExp)
    pending = list(function.body)
    while pending:
        part = pending.pop()
        if not isinstance(part, scopes):
            yield part
            pending += ast.iter_child_nodes(part)


def is_alignment(node):
    """An address modulo a small power of two, which tells no two tensors apart."""
    return (isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mod, ast.BitAnd)) and isinstance(node.right, ast.Constant)
            and isinstance(node.right.value, int) and node.right.value <= 256)


def keyed_by(tree, pointers):
    """A key made of an address, an identity or a hash that is looked up in a dictionary, or compared with one kept."""
    wanted = set(map(id, pointers))
    named = {t.id for n in ast.walk(tree) if isinstance(n, ast.Assign) and any(id(p) in wanted for p in ast.walk(n.value))
             for t in n.targets if isinstance(t, ast.Name)}
    for node in ast.walk(tree):
        keys = []
        if isinstance(node, ast.Subscript):
            keys = [node.slice]
        elif isinstance(node, ast.Compare):
            keys = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("get", "setdefault", "pop"):
            keys = node.args[:1]
        for key in keys:
            for part in [] if is_alignment(key) else ast.walk(key):
                if id(part) in wanted or (isinstance(part, ast.Name) and part.id in named):
                    return node
    return None


def check(tree):
    scan = Scan()
    scan.collect(tree)
    scan.visit(tree)
    if not scan.kernel:
        scan.hit("no_custom_kernel", tree, "no load_inline, no triton.jit")
    cached = keyed_by(tree, scan.pointers)
    if cached is not None:
        scan.hit("py_cache", cached, ast.unparse(cached))
    return [{"rule": rule, "evidence": evidence} for rule, evidence in sorted(scan.found.items(), key=lambda x: RULES.index(x[0]))]


def check_text(text):
    try:
        return check(ast.parse(text, "<candidate>"))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return [{"rule": "py_syntax", "evidence": f"line {getattr(error, 'lineno', None) or 1}: {type(error).__name__}: {error}"}]


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(RULES))
    else:
        json.dump(check_text(sys.stdin.buffer.read().decode("utf-8", "replace")), sys.stdout)
