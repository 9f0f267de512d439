"""Finds the functions of a package by file and line, and replaces their code in place.

A function's code object is exchanged, not the function: decorators, registries and other modules that already hold the
function run the replacement too.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

HOOK = "@assay-hook"
TEMPLATE = """
def make({cells}):
    def {name}(*args, **kwargs):
        {use}
        return {hook!r}(args, kwargs)
    return {name}
"""


class FunctionPath(NamedTuple):
    """Names a function of the package: the module that it is imported from, and its qualified name."""

    module: str
    name: str


class Package:
    """The package under test, as far as it is imported.

    Args:
        modules: The package's program files, absolute; tests and their configuration are not among them.
        paths: Import roots, absolute; the deepest one that holds a file names its module.
        root: The folder that holds the package and its tests.
    """

    def __init__(self, modules: list[str], paths: list[str], root: str) -> None:
        self._modules = frozenset(modules)
        self._root = root.rstrip("/") + "/"
        self._paths = sorted((path.rstrip("/") + "/" for path in paths), key=len, reverse=True)
        self._names: dict[str, dict[tuple[int, str], str]] = {}
        self._by_code: dict[CodeType, FunctionPath | None] = {}

    def is_test(self, path: str) -> bool:
        """Returns True for a file below the root that is not a program file of the package."""
        return path.startswith(self._root) and path not in self._modules

    def owns(self, path: str) -> bool:
        """Returns True for a program file of the package."""
        return path in self._modules

    def owns_class(self, kind: type) -> bool:
        """Returns True for a class that a program file of the package defines."""
        module = sys.modules.get(getattr(kind, "__module__", "") or "")
        return self.owns(getattr(module, "__file__", None) or "")

    def find_path(self, code: CodeType) -> FunctionPath | None:
        """Returns the import path and attributes that lead to this code; None if it cannot be reached by name."""
        if code not in self._by_code:
            self._by_code[code] = self._build_path(code)
        return self._by_code[code]

    def qualified_name(self, code: CodeType) -> str:
        """Returns the qualified name of code of the package; empty where its file does not define it by name."""
        path = code.co_filename
        if path not in self._names:
            self._names[path] = dict(_named_functions(path))
        return self._names[path].get((code.co_firstlineno, code.co_name), "")

    def module_name(self, path: str) -> str:
        """Returns the name that a file is imported by; empty where no import root leads to it."""
        for root in self._paths:
            if path.startswith(root):
                inner = path[len(root) :]
                inner = inner[: -len(".py")] if inner.endswith(".py") else inner
                inner = inner[: -len("/__init__")] if inner.endswith("/__init__") else inner
                return inner.replace("/", ".")
        return ""

    def _build_path(self, code: CodeType) -> FunctionPath | None:
        name, module = self.qualified_name(code), self.module_name(code.co_filename)
        if not name or not module or "<locals>" in name:
            return None
        member = FunctionPath(module, name)
        try:
            function = unwrap(static_member(member))
        except (ImportError, AttributeError, KeyError, ValueError):
            return None
        return member if getattr(function, "__code__", None) is code else None


def static_member(path: FunctionPath) -> Any:
    """Returns what stands at a place, with no descriptor run. Raises `AttributeError` or `KeyError` where none does."""
    member: Any = importlib.import_module(path.module)
    for part in path.name.split("."):
        member = member.__dict__[part] if isinstance(member, type) else getattr(member, part)
    return member


def unwrap(member: Any) -> Any:
    """Returns the plain function inside properties, methods and decorators that say what they wrap."""
    for _ in range(32):
        if isinstance(member, property):
            member = member.fget
        elif isinstance(member, (staticmethod, classmethod)):
            member = member.__func__
        elif type(member).__name__ == "cached_property" and hasattr(member, "func"):
            member = member.func
        elif "orig_func" in getattr(member, "__dict__", ()):
            member = member.orig_func
        elif "__wrapped__" in getattr(member, "__dict__", ()):
            member = member.__wrapped__
        else:
            return member
    raise ValueError("wrapped too often")


def kind_of_member(path: FunctionPath) -> str:
    """Returns how a function is bound, as the decorator's name; otherwise `function` or `method`."""
    member = static_member(path)
    if isinstance(member, (property, classmethod, staticmethod)):
        return type(member).__name__
    if type(member).__name__ == "cached_property":
        return "cached_property"
    return "method" if "." in path.name else "function"


def is_wrapper(frame: Any) -> bool:
    """Returns True for a method of an object that stands for a function, as a dispatching decorator's does."""
    code = frame.f_code
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount and code.co_varnames else None
    attributes = getattr(first, "__dict__", None)
    return isinstance(attributes, dict) and callable(first) and bool({"orig_func", "__wrapped__"} & attributes.keys())


def find_functions(wanted: Callable[[CodeType], bool], paths: set[str]) -> list[FunctionType]:
    """Returns every function of some files in memory whose code is wanted, in the order of files and lines."""
    import live_functions  # type: ignore[import-not-found]  # copied beside this file; who only replaces needs none

    member = [function for function in live_functions.functions_in_memory(paths) if wanted(function.__code__)]
    return sorted(member, key=lambda f: (f.__code__.co_filename, f.__code__.co_firstlineno, f.__qualname__))


def replace_body(
    function: FunctionType, hook: Callable[[FunctionType, tuple[Any, ...], dict[str, Any]], Any]
) -> FunctionType:
    """Makes a function call `hook(original, args, kwargs)`, where `original` does what the function did before; returns
    `original`."""
    old = function.__code__
    original = FunctionType(old, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    original.__kwdefaults__ = function.__kwdefaults__
    original.__qualname__ = function.__qualname__
    with contextlib.suppress(TypeError, ValueError):
        if "__signature__" not in vars(function):
            function.__signature__ = inspect.signature(function, follow_wrapped=False)  # type: ignore[attr-defined]

    def call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return hook(original, args, kwargs)

    function.__code__ = _calling(old, call)
    return original


def _calling(old: CodeType, call: Callable[[tuple[Any, ...], dict[str, Any]], Any]) -> CodeType:
    """Returns code with the same free variables as `old` that hands all arguments to `call`."""
    cells, name = ", ".join(old.co_freevars), old.co_name if old.co_name.isidentifier() else "function"
    text = TEMPLATE.format(cells=cells, name=name, use=f"({cells},)" if cells else "pass", hook=HOOK)
    inner = _compile_inner(text, old.co_filename)
    consts = tuple(call if const == HOOK else const for const in inner.co_consts)
    return inner.replace(co_consts=consts, co_firstlineno=old.co_firstlineno, co_name=old.co_name)


@functools.lru_cache(maxsize=256)
def _compile_inner(text: str, path: str) -> CodeType:
    """Returns the code of the function inside another one that a text defines; many functions have the same."""
    module = compile(text, path, "exec", dont_inherit=True)
    make = next(c for c in module.co_consts if isinstance(c, CodeType))
    return next(c for c in make.co_consts if isinstance(c, CodeType))


def _named_functions(path: str) -> Iterator[tuple[tuple[int, str], str]]:
    """Yields first line and name of each function of a file, as code objects have them, with its qualified name."""
    import loaded_package  # type: ignore[import-not-found]  # copied beside this file, as above

    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a program on its own
            text = file.read()
        code = loaded_package.read_byte_code(path, text)  # takes a twentieth of parsing the text
        if code is not None and sys.version_info >= (3, 11):
            yield from _functions_in(code)
            return
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                yield (first, child.name), prefix + child.name
                pending.append((child, f"{prefix}{child.name}.<locals>."))
            elif isinstance(child, ast.ClassDef):
                pending.append((child, f"{prefix}{child.name}."))
            else:
                pending.append((child, prefix))


def _functions_in(code: CodeType) -> Iterator[tuple[tuple[int, str], str]]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & inspect.CO_OPTIMIZED and not inner.co_name.startswith("<"):
                yield (inner.co_firstlineno, inner.co_name), inner.co_qualname
            yield from _functions_in(inner)
