"""What one `load_inline` or `load` of a candidate asks for, in one form for those who need it: the scan that finds the calls
in a candidate's text (verifier/build/torch_scan.py), and the runner that answers them (torch_runner.py).

A request is a dict that JSON can hold:
  {"cpp": [text, ...], "cuda": [text, ...], "functions": {name: docstring} or None, "cflags": [...],
   "cuda_cflags": [...], "ldflags": [...], "implicit_headers": bool, "error_handling": bool}
and "musa": True where it came through torch_musa's extension builder: device sources and their flags are then MUSA's.
Its key names the artefact that the build stage makes of it. The name that the caller gives is no part of it: many make it
of a process id or the time.

The defaults and the treatment of arguments are those of torch.utils.cpp_extension in torch 2.x, and of
torch_musa.utils.musa_extension, which has the same function with other names and places of arguments.
"""

import hashlib
import json

# Positional parameters as torch names them. SYCL's are there to count positions and must be empty.
LOAD_INLINE_PARAMETERS = (
    "name cpp_sources cuda_sources sycl_sources functions extra_cflags extra_cuda_cflags extra_sycl_cflags extra_ldflags "
    "extra_include_paths build_directory verbose with_cuda with_sycl is_python_module with_pytorch_error_handling "
    "keep_intermediates use_pch no_implicit_headers"
).split()
MUSA_LOAD_INLINE_PARAMETERS = (
    "name cpp_sources cuda_sources functions extra_cflags extra_cuda_cflags extra_ldflags extra_include_paths "
    "build_directory verbose with_cuda is_python_module with_pytorch_error_handling keep_intermediates no_implicit_headers"
).split()
MUSA_NAMES = {"musa_sources": "cuda_sources", "extra_musa_cflags": "extra_cuda_cflags", "with_musa": "with_cuda"}
LOAD_PARAMETERS = (
    "name sources extra_cflags extra_cuda_cflags extra_sycl_cflags extra_ldflags extra_include_paths build_directory "
    "verbose with_cuda with_sycl is_python_module is_standalone keep_intermediates"
).split()


class Unusable(Exception):
    """A request that no extension can be built from."""


def bind(parameters, args, kwargs):
    """Arguments by name."""
    if len(args) > len(parameters):
        raise Unusable("too many arguments")
    given = dict(zip(parameters, args))
    for name, value in kwargs.items():
        if name not in parameters:
            raise Unusable(f"no parameter `{name}`")
        given[name] = value
    return given


def texts(value, what):
    """A list of texts, where torch takes one text, several, or none."""
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return list(value)
    raise Unusable(f"{what} is not text")


def from_inline(args, kwargs, musa=False):
    """`musa`: of torch_musa's function."""
    if musa:
        given = bind(MUSA_LOAD_INLINE_PARAMETERS, args, {MUSA_NAMES.get(name, name): value for name, value in kwargs.items()})
    else:
        given = bind(LOAD_INLINE_PARAMETERS, args, kwargs)
    functions = given.get("functions")
    if isinstance(functions, str):
        functions = [functions]
    if isinstance(functions, (list, tuple)):
        functions = {name: name for name in functions}
    if functions is not None and not isinstance(functions, dict):
        raise Unusable("`functions` is neither a list nor a dict")
    if given.get("sycl_sources") or given.get("with_sycl"):
        raise Unusable("SYCL sources")
    if given.get("is_python_module", True) is not True:
        raise Unusable("is_python_module=False")
    return finish(
        {
            **({"musa": True} if musa else {}),
            "cpp": texts(given.get("cpp_sources"), "cpp_sources"),
            "cuda": texts(given.get("cuda_sources"), "cuda_sources"),
            "functions": functions,
            "implicit_headers": not given.get("no_implicit_headers", False),
            "error_handling": bool(given.get("with_pytorch_error_handling", True)),
        },
        given,
    )


def from_files(args, kwargs, read):
    """A `load`; `read` gives the text of a file."""
    given = bind(LOAD_PARAMETERS, args, kwargs)
    if given.get("with_sycl") or given.get("is_standalone") or given.get("is_python_module", True) is not True:
        raise Unusable("not a Python module of C++ or CUDA")
    request = {"cpp": [], "cuda": [], "functions": None, "implicit_headers": False, "error_handling": True}
    for path in texts(given.get("sources"), "sources"):
        request["cuda" if str(path).endswith((".cu", ".cuh")) else "cpp"].append(read(path))
    return finish(request, given)


def finish(request, given):
    request["cflags"] = texts(given.get("extra_cflags"), "extra_cflags")
    request["cuda_cflags"] = texts(given.get("extra_cuda_cflags"), "extra_cuda_cflags")
    request["ldflags"] = texts(given.get("extra_ldflags"), "extra_ldflags")
    if texts(given.get("extra_include_paths"), "extra_include_paths"):
        raise Unusable("extra_include_paths: nothing but the toolchain is there when an extension is built")
    return request


def key_of(request):
    return hashlib.sha256(json.dumps(request, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()
