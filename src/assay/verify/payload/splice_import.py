"""Loads modules of the original package with the bodies of entry points replaced by calls of a worker.

The syntax tree is changed before anything of it runs, so that decorators, signatures, defaults and docstrings are
preserved. Each body first asks if the entry point is active in the current test; if it is not, the original body runs.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.abc
import importlib.machinery
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

SPLICE_MODULE = "_assay_splice"
"""Module name under which the replaced bodies import `is_active`, `call` and `iterate`."""
_NAME = "assay_splice_of_the_judge"


def install(
    entries: Sequence[Sequence[str]], sources: dict[str, str], functions: dict[str, Any], report: Callable[[str], None]
) -> None:
    """Installs the import hook.

    Args:
        entries: (module, qualname) of each entry point.
        sources: Module to the SHA-256 of its original source; other bytes are reported.
        functions: `is_active(key)`, `call(key, arguments)` and `iterate(key, arguments)`, by name.
        report: Receives a text for each entry point that cannot be replaced.
    """
    module = types.ModuleType(SPLICE_MODULE)
    vars(module).update(functions)
    sys.modules[SPLICE_MODULE] = module
    wanted: dict[str, set[str]] = {}
    for name, qualname in entries:
        wanted.setdefault(name, set()).add(qualname)
        if name in sys.modules:
            report(f"{name} was imported before it could be spliced")
    sys.meta_path.insert(0, _Finder(wanted, sources, report))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, wanted: dict[str, set[str]], sources: dict[str, str], report: Callable[[str], None]) -> None:
        self._wanted = wanted
        self._sources = sources
        self._report = report

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """Returns a spec with the changing loader for the modules of entry points."""
        if fullname not in self._wanted:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return spec
        loader = _Loader(fullname, spec.loader.path)
        loader.prepare(self._wanted[fullname], self._sources.get(fullname), self._report)
        spec.loader = loader
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    def prepare(self, wanted: set[str], digest: str | None, report: Callable[[str], None]) -> None:
        """Sets the entry points of the module, its expected digest and the receiver of reports."""
        self._entries = wanted
        self._digest = digest
        self._tell = report

    def get_code(self, fullname: str) -> Any:
        """Returns the changed code, compiled anew: cached byte code is neither read nor written."""
        data = self.get_data(self.path)
        if self._digest is not None and hashlib.sha256(data).hexdigest() != self._digest:
            self._tell(f"{fullname} is not the original: its source has another digest than the plan's")
        tree = ast.parse(data)
        replaced = _replace_bodies(tree, fullname, self._entries)
        for missing in sorted(self._entries - replaced):
            self._tell(f"{fullname} has no function {missing} that can be spliced")
        return compile(tree, self.path, "exec", dont_inherit=True)


def _replace_bodies(tree: ast.Module, module: str, wanted: set[str]) -> set[str]:
    """Changes the tree in place; returns the qualnames that were replaced."""
    definitions: dict[str, ast.FunctionDef] = {}

    def walk(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                walk(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef):
                if prefix + node.name in wanted and not _is_accessor(node):
                    definitions[prefix + node.name] = node
            elif isinstance(node, (ast.If, ast.Try, ast.With)):
                walk([child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)], prefix)

    walk(tree.body, "")
    for qualname, node in definitions.items():
        _replace_body(node, f"{module}:{qualname}")
    if definitions:
        place = 1 if ast.get_docstring(tree) is not None else 0
        while place < len(tree.body) and getattr(tree.body[place], "module", "") == "__future__":
            place += 1
        tree.body.insert(place, ast.parse(f"import {SPLICE_MODULE} as {_NAME}").body[0])
        ast.fix_missing_locations(tree)
    return set(definitions)


def _is_accessor(node: ast.FunctionDef) -> bool:
    """Returns whether a function is an overload, or the setter or deleter of a property, which shares its name."""
    names = [d.attr if isinstance(d, ast.Attribute) else getattr(d, "id", "") for d in node.decorator_list]
    return any(name in ("setter", "deleter", "overload") for name in names)


def _replace_body(node: ast.FunctionDef, key: str) -> None:
    given = node.args
    positional = [a.arg for a in [*getattr(given, "posonlyargs", []), *given.args]]
    values = [*positional, *([f"*{given.vararg.arg}"] if given.vararg else [])]
    keywords = [*(f"{a.arg!r}: {a.arg}" for a in given.kwonlyargs), *([f"**{given.kwarg.arg}"] if given.kwarg else [])]
    rest = (given.vararg.arg if given.vararg else None, given.kwarg.arg if given.kwarg else None)
    listed = f"([{', '.join(values)}], {{{', '.join(keywords)}}}, {positional!r}, {rest!r})"
    name = "iterate" if _is_generator(node) else "call"
    called = f"{_NAME}.{name}({key!r}, {listed})"
    result = f"(yield from {called})" if name == "iterate" else called
    text = f"if {_NAME}.is_active({key!r}):\n    return {result}"
    stub = ast.parse(text).body[0]
    for part in ast.walk(stub):
        if hasattr(part, "lineno"):
            ast.copy_location(part, node)
    node.body.insert(1 if ast.get_docstring(node, clean=False) is not None else 0, stub)


def _is_generator(node: ast.FunctionDef) -> bool:
    todo: list[ast.AST] = list(node.body)
    while todo:
        part = todo.pop()
        if isinstance(part, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += ast.iter_child_nodes(part)
    return False
