"""Reads a torch candidate without running it: which extensions it asks for, with their sources, and what it may not do.

Standard input: the candidate's text. Standard output: one JSON object
  {"error": a syntax error or none of `ModelNew`, or "", "line": its line,
   "extensions": [{"key", "request" (torch_extension.py), "line", "where": "module" | "function" | "try"}],
   "unresolved": [{"line", "what"}]  calls whose arguments are not constants,
   "triton": whether a Triton kernel is defined,
   "rules": [{"rule", "evidence"}] (python_rules.py)}
The text is the enemy's: this runs in a process of its own, in the sandbox, under limits.

Constants are followed through names bound in the module, in enclosing functions and as attributes of self, through
concatenation, f-strings, % and str methods that need no more than their arguments. Of several bindings of one name in one
scope, the last one before the use counts.
"""

import ast
import json
import os
import sys
import textwrap

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import python_rules  # noqa: E402
import torch_extension  # noqa: E402

STRING_METHODS = {"strip", "lstrip", "rstrip", "replace", "format", "join", "lower", "upper", "removeprefix", "removesuffix"}


class Unknown(Exception):
    """Not a constant."""


class Scope:
    """Bindings of one function, or of the module: name -> [(line, value node)]."""

    def __init__(self, node, outer):
        self.node = node
        self.outer = outer
        self.bindings = {}

    def bind(self, name, line, value):
        self.bindings.setdefault(name, []).append((line, value))

    def find(self, name, line):
        """The last binding before `line`; of an outer scope, the last one of all."""
        found = self.bindings.get(name)
        if found:
            before = [value for at, value in found if at <= line]
            return (before[-1] if before else found[-1][1]), self
        return self.outer.find(name, sys.maxsize) if self.outer else (None, None)


class Module(ast.NodeVisitor):
    def __init__(self, tree):
        self.module = Scope(tree, None)
        self.scope = self.module
        self.returns = {}  # functions of one return statement: name -> (value node, scope)
        self.attributes = {}  # of self and of classes: name -> [(line, value node, scope)]
        self.aliases = {}  # local name -> dotted origin
        self.calls = []  # (kind, call node, scope, inside try, inside function)
        self.tries = 0
        self.functions = 0
        self.triton = False
        self.has_model = False
        self.visit(tree)

    # ---- Scopes and bindings. ----

    def visit_FunctionDef(self, node):
        for decorator in node.decorator_list:
            name = self.dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
            if name.startswith("triton."):
                self.triton = self.triton or name.split(".")[-1] == "jit"
            self.visit(decorator)
        for default in node.args.defaults + [d for d in node.args.kw_defaults if d is not None]:
            self.visit(default)
        outer, self.scope = self.scope, Scope(node, self.scope)
        returned = [part for part in ast.walk(node) if isinstance(part, ast.Return) and part.value is not None]
        if len(returned) == 1:
            self.returns[node.name] = (returned[0].value, self.scope)
        positional = node.args.posonlyargs + node.args.args
        for parameter, default in zip(positional[len(positional) - len(node.args.defaults) :], node.args.defaults):
            self.scope.bind(parameter.arg, node.lineno, default)
        self.functions += 1
        for statement in node.body:
            self.visit(statement)
        self.functions -= 1
        self.scope = outer

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node):
        self.has_model = self.has_model or node.name == "ModelNew"
        for statement in node.body:
            for target in getattr(statement, "targets", []):
                if isinstance(target, ast.Name):
                    self.attributes.setdefault(target.id, []).append((statement.lineno, statement.value, self.scope))
        self.generic_visit(node)

    def visit_Try(self, node):
        self.tries += 1
        for statement in node.body:
            self.visit(statement)
        self.tries -= 1
        for part in node.handlers + node.orelse + node.finalbody:
            self.visit(part)

    def visit_Assign(self, node):
        for target in node.targets:
            self.bind_target(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.bind_target(node.target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        if isinstance(node.target, ast.Name):
            before, _ = self.scope.find(node.target.id, node.lineno)
            if before is not None and isinstance(node.op, ast.Add):
                self.scope.bind(node.target.id, node.lineno + 1, ast.BinOp(left=before, op=node.op, right=node.value))
        self.generic_visit(node)

    def bind_target(self, target, value):
        if isinstance(target, ast.Name):
            self.scope.bind(target.id, target.lineno, value)
            if target.id == "ModelNew":
                self.has_model = True
        elif isinstance(target, ast.Attribute):
            self.attributes.setdefault(target.attr, []).append((target.lineno, value, self.scope))
        elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
            for one, its in zip(target.elts, value.elts):
                self.bind_target(one, its)

    # ---- Imports. ----

    def visit_Import(self, node):
        for item in node.names:
            self.aliases[item.asname or item.name.split(".")[0]] = item.name if item.asname else item.name.split(".")[0]
        self.generic_visit(node)

    def visit_ImportFrom(self, node):
        for item in node.names:
            self.aliases[item.asname or item.name] = f"{node.module}.{item.name}"
        self.generic_visit(node)

    def dotted(self, node):
        """"torch.utils.cpp_extension.load_inline" of whatever name the text uses for it, or ""."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self.aliases.get(node.id, node.id)] + parts[::-1])

    def visit_Call(self, node):
        name = self.dotted(node.func)
        if name == "torch.utils.cpp_extension.load_inline" or name.endswith("cpp_extension.load_inline"):
            self.calls.append(("load_inline", node, self.scope, self.tries > 0, self.functions > 0))
        elif name.endswith("musa_extension.load_inline"):
            self.calls.append(("load_inline of torch_musa", node, self.scope, self.tries > 0, self.functions > 0))
        elif name.endswith("cpp_extension.load"):
            self.calls.append(("load", node, self.scope, self.tries > 0, self.functions > 0))
        self.generic_visit(node)

    # ---- Constants. ----

    def value(self, node, scope, line, depth=0):
        if depth > 40:
            raise Unknown("too deep")
        again = lambda part: self.value(part, scope, line, depth + 1)  # noqa: E731
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.List, ast.Tuple)):
            items = [again(item) for item in node.elts]
            return items if isinstance(node, ast.List) else tuple(items)
        if isinstance(node, ast.Dict) and all(key is not None for key in node.keys):
            return {again(k): again(v) for k, v in zip(node.keys, node.values)}
        if isinstance(node, ast.Name):
            found, where = scope.find(node.id, line)
            if found is None:
                raise Unknown(node.id)
            return self.value(found, where, getattr(found, "lineno", line), depth + 1)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found = self.attributes.get(node.attr)
            if not found:
                raise Unknown(ast.unparse(node))
            at, bound, where = found[-1]
            return self.value(bound, where, at, depth + 1)
        if isinstance(node, ast.BinOp):
            return self.operation(node, again)
        if isinstance(node, ast.JoinedStr):
            return "".join(self.piece(part, again) for part in node.values)
        if isinstance(node, ast.Call):
            return self.method(node, again, depth)
        if isinstance(node, ast.IfExp):
            raise Unknown("a choice at run time")
        raise Unknown(ast.unparse(node)[:60])

    @staticmethod
    def operation(node, again):
        left, right = again(node.left), again(node.right)
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if isinstance(node.op, ast.Add) and (numbers or type(left) is type(right)):
            return left + right
        if isinstance(node.op, ast.Mod) and isinstance(left, str):
            return left % right
        if isinstance(node.op, ast.Mult) and numbers:
            return left * right
        if isinstance(node.op, ast.FloorDiv) and numbers and right != 0:
            return left // right
        if isinstance(node.op, ast.Sub) and numbers:
            return left - right
        raise Unknown(ast.unparse(node)[:60])

    @staticmethod
    def piece(part, again):
        if isinstance(part, ast.Constant):
            return str(part.value)
        if part.conversion not in (-1, ord("s")):
            raise Unknown("a conversion")
        return format(again(part.value), again(part.format_spec) if part.format_spec else "")

    def method(self, node, again, depth):
        arguments = [again(argument) for argument in node.args]
        named = {item.arg: again(item.value) for item in node.keywords if item.arg}
        if self.dotted(node.func) == "textwrap.dedent":
            return textwrap.dedent(*arguments)
        if isinstance(node.func, ast.Name) and node.func.id in ("str", "list", "tuple", "dict") and len(arguments) <= 1:
            return {"str": str, "list": list, "tuple": tuple, "dict": dict}[node.func.id](*arguments, **named)
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in self.returns and not arguments and not named:
            returned, where = self.returns[name]
            return self.value(returned, where, returned.lineno, depth + 1)
        if isinstance(node.func, ast.Attribute) and node.func.attr in STRING_METHODS:
            text = again(node.func.value)
            if isinstance(text, str):
                return getattr(text, node.func.attr)(*arguments, **named)
        raise Unknown(ast.unparse(node)[:60])

    # ---- The calls. ----

    def extension(self, kind, node, scope):
        if any(isinstance(argument, ast.Starred) for argument in node.args):
            raise Unknown("*arguments")
        ignored = {"name", "verbose", "build_directory", "with_cuda", "with_musa", "keep_intermediates", "use_pch"}
        arguments = ["" if i == 0 else self.value(a, scope, node.lineno) for i, a in enumerate(node.args)]
        named = {}
        for item in node.keywords:
            if item.arg is None:
                named.update(self.value(item.value, scope, node.lineno))
            elif item.arg not in ignored:
                named[item.arg] = self.value(item.value, scope, node.lineno)
        if kind.startswith("load_inline"):
            return torch_extension.from_inline(arguments, named, musa=kind.endswith("torch_musa"))
        raise Unknown("the files of `load` are not there before the candidate runs")


def scan(source):
    result = {"error": "", "line": 0, "extensions": [], "unresolved": [], "triton": False, "rules": []}
    try:
        tree = ast.parse(source, "<candidate>")
        module = Module(tree)
    except SyntaxError as error:
        return {**result, "error": f"{type(error).__name__}: {error.msg}", "line": error.lineno or 0}
    except (ValueError, RecursionError, MemoryError) as error:
        return {**result, "error": f"{type(error).__name__}: {error}"}
    if not module.has_model:
        return {**result, "error": "no class `ModelNew`"}
    result["triton"], result["rules"] = module.triton, python_rules.check(tree)
    for kind, node, scope, in_try, in_function in module.calls:
        try:
            request = module.extension(kind, node, scope)
        except (Unknown, torch_extension.Unusable, TypeError, ValueError, KeyError, IndexError) as error:
            result["unresolved"].append({"line": node.lineno, "what": f"{kind}: {error}"})
            continue
        key = torch_extension.key_of(request)
        where = "try" if in_try else "function" if in_function else "module"
        result["extensions"].append({"key": key, "request": request, "line": node.lineno, "where": where})
    return result


if __name__ == "__main__":
    json.dump(scan(sys.stdin.buffer.read().decode("utf-8")), sys.stdout)
