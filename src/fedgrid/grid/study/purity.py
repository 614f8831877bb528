"""Code that reads the values of tensors, found in the source of methods and models before anything is trained.

The engine runs a loss, a step, a measurement or a layer of a model for one client or, under `torch.vmap`, for a stack
of them. A stack has no single value that ``x.item()`` or ``float(x)`` could return. One client alone has, so without
this look such code would run or fail depending on the machine.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Set
from pathlib import Path
from typing import TypeAlias

ENTRIES: Mapping[str, tuple[str, ...]] = {"methods": ("loss", "predict"), "models": ("forward",)}
"Functions of a kind of component that the engine calls for one client."
TAKING: Mapping[str, tuple[str, ...]] = {"methods": ("train", "iterate", "measure", "collect", "test")}
"Functions of `fed` that take such functions."
READING = ("item", "tolist", "numpy")
CONVERSIONS = ("float", "int", "bool")
NO_VALUES = ("shape", "dtype", "ndim", "device", "server", "model")
"Attributes that are no values of one client's tensors; `at.server` and `at.model` are the same for all clients."
SIZES = ("len", "isinstance", "size", "dim", "numel", "is_floating_point")
ADVICE = (
    "clients that are trained together have no single value there; compute with the tensor itself, and choose with "
    "torch.where(condition, a, b)"
)
Function: TypeAlias = ast.FunctionDef | ast.Lambda


def impure(file: Path, kind: str = "methods") -> list[str]:
    """Where functions that the engine calls for one client read the value of a tensor: file, line, and what to do."""
    look = _Look(ast.parse(file.read_bytes(), filename=str(file)))
    look.run(ENTRIES.get(kind, ()), TAKING.get(kind, ()))
    what = f"reads the value of a tensor; {ADVICE}"
    return [f"{file}, line {line}: `{text}` in {where} {what}" for line, where, text in sorted(look.flaws)]


class _Look:
    """A look at all functions of a module that run for one client."""

    def __init__(self, tree: ast.Module):
        self.tree = tree
        self.functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        self.visited: set[tuple[Function, frozenset[str]]] = set()
        self.flaws: set[tuple[int, str, str]] = set()
        "Line, function and expression."

    def run(self, entries: Collection[str], taking: Collection[str]) -> None:
        """Looks at the entries, and at what is given to the functions `taking` others."""
        functions: list[Function] = []
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ClassDef) and node.bases:
                functions += [s for s in node.body if isinstance(s, ast.FunctionDef) and s.name in entries]
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in taking:
                arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
                functions += [function for argument in arguments for function in self._values(argument)]
        for function in functions:
            self._visit(function, _parameters(function))

    def _values(self, node: ast.AST) -> Iterator[Function]:
        """The functions of this module that an expression names or holds without calling them."""
        called = {id(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
        for part in ast.walk(node):
            if isinstance(part, ast.Lambda):
                yield part
            elif id(part) not in called and (function := self._named(part)):
                yield function

    def _named(self, node: ast.AST) -> ast.FunctionDef | None:
        """The function that ``f`` or ``self.f`` stands for."""
        if isinstance(node, ast.Name):
            return self.functions.get(node.id)
        own = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self"
        return self.functions.get(node.attr) if own and isinstance(node, ast.Attribute) else None

    def _visit(self, function: Function, varying: Collection[str]) -> None:
        """Looks at a function whose parameters `varying` hold values of one client."""
        key = function, frozenset(varying)
        if key in self.visited:
            return
        self.visited.add(key)
        names = _varying_names(function, set(varying))
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                self._check(function, node, names)
                self._follow(node, names)

    def _check(self, function: Function, call: ast.Call, names: Set[str]) -> None:
        read: ast.expr | None = None
        if isinstance(call.func, ast.Attribute) and call.func.attr in READING:
            read = call.func.value
        elif isinstance(call.func, ast.Name) and call.func.id in CONVERSIONS and call.args:
            read = call.args[0]
        if read is not None and _varies(read, names):
            where = f"'{function.name}'" if isinstance(function, ast.FunctionDef) else "a lambda"
            self.flaws.add((call.lineno, where, ast.unparse(call)))

    def _follow(self, call: ast.Call, names: Set[str]) -> None:
        """Looks at the function that is called, and at functions that are handed to others such as torch.func.grad."""
        if (function := self._named(call.func)) is not None:
            self._visit(function, _bound(function, call, names))
        for argument in call.args:
            if (handed := self._named(argument)) is not None:
                self._visit(handed, _parameters(handed))


def _parameters(function: Function) -> list[str]:
    parameters = [node for node in ast.iter_child_nodes(function.args) if isinstance(node, ast.arg)]
    return [parameter.arg for parameter in parameters if parameter.arg != "self"]


def _bound(function: Function, call: ast.Call, names: Set[str]) -> Collection[str]:
    """The parameters that a call gives values of one client."""
    parameters = _parameters(function)
    if any(isinstance(value, ast.Starred) for value in call.args) or any(k.arg is None for k in call.keywords):
        return parameters
    given = [*zip(parameters, call.args, strict=False), *((k.arg or "", k.value) for k in call.keywords)]
    return {name for name, value in given if _varies(value, names)}


def _varying_names(function: Function, names: set[str]) -> set[str]:
    """`names` and all that are assigned from them, directly or not; parameters of inner functions count."""
    inner = (node for node in ast.walk(function) if isinstance(node, Function) and node is not function)
    names |= {name for node in inner for name in _parameters(node)}
    while True:
        targets = {name for node in ast.walk(function) for name in _assigned(node, names)}
        if targets <= names:
            return names
        names |= targets


def _assigned(node: ast.AST, names: Set[str]) -> Iterator[str]:
    """The names to which a statement or a comprehension assigns what varies."""
    value = getattr(node, "iter", None) or getattr(node, "value", None)
    targets = [*getattr(node, "targets", []), *filter(None, [getattr(node, "target", None)])]
    if targets and isinstance(value, ast.expr) and _varies(value, names):
        for target in targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def _varies(node: ast.AST, names: Set[str]) -> bool:
    """Whether the value of an expression depends on the values of one client's tensors."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute) and node.attr in NO_VALUES:
        return False
    if isinstance(node, ast.Call) and (getattr(node.func, "attr", "") or getattr(node.func, "id", "")) in SIZES:
        return False
    if isinstance(node, ast.Compare) and any(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops):
        return False
    return any(_varies(child, names) for child in ast.iter_child_nodes(node))
