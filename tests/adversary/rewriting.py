"""Rewrites of a repaired package that mean the same: other right solutions of a task, made by rule.

Beside the rewrites of `assay.code.preserving`, which change expressions and names inside functions, these change the
structure: a helper is extracted, a decorator added, a private function renamed, a caller rewritten.
"""

from __future__ import annotations

import ast
import random
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from assay.code.preserving import PRESERVING
from assay.code.source import FunctionInfo, functions, parse
from assay.code.transplant import find_function

from .synthesised import RepairTask

__all__ = ["Rewritten", "rewrite_task"]

WHOLE_FILE = ("renamed-locals", "equal-expressions", "without-docstrings", "spaced")
_DECORATOR = """

def _pass_through(function):
    import functools

    @functools.wraps(function)
    def wrapped(*args, **named):
        return function(*args, **named)

    return wrapped
"""


class Rewritten(NamedTuple):
    """One other right solution: new texts of files, by path."""

    name: str
    files: dict[str, str]


def rewrite_task(task: RepairTask, chance: random.Random | None = None) -> Iterator[Rewritten]:
    """Yields every rewrite that can be made of a task's repaired functions, their files and the entry points.

    With `chance` in a random order; each is made when it is its turn.
    """
    drafts = list(_drafts(task))
    if chance is not None:
        chance.shuffle(drafts)
    for draft in drafts:
        text = draft.make()
        if text is not None:
            name = re.sub(r"[^a-zA-Z0-9]+", "-", draft.name).strip("-").lower()
            yield Rewritten(name, {**task.repaired, draft.path: text})


class _Draft(NamedTuple):
    """A rewrite of one file that has not been made yet."""

    name: str
    path: str
    make: Callable[[], str | None]


def _drafts(task: RepairTask) -> Iterator[_Draft]:
    for path, function in task.repaired_functions():
        text = task.repaired[path]
        lines = range(function.line, function.end_line + 1)
        everywhere = range(1, text.count("\n") + 2)
        for name, rewrite in PRESERVING.items():
            yield _Draft(f"{name}-in-{function.name}", path, partial(rewrite, text, lines))
        for name in WHOLE_FILE:
            yield _Draft(f"{name}-everywhere", path, partial(PRESERVING[name], text, everywhere))
        yield _Draft(f"helper-of-{function.name}", path, partial(extract_helper, text, function))
        yield _Draft(f"decorator-of-{function.name}", path, partial(add_decorator, text, function))
        for caller in _callers(text, function):
            yield _Draft(f"caller-{caller.name}", path, partial(_other_expressions, text, caller))
        for name in sorted({f.name for f in functions(parse(text)) if re.fullmatch(r"_[a-z]\w*", f.name)}):
            yield _Draft(f"renamed{name}", path, partial(_rename_private, task, path, text, name))
    for path, function in task.entry_functions():
        text = task.repaired.get(path, task.broken[path])
        yield _Draft(f"helper-of-entry-{function.name}", path, partial(extract_helper, text, function))
        yield _Draft(f"rewritten-entry-{function.name}", path, partial(_other_expressions, text, function))
        yield _Draft(f"decorator-of-entry-{function.name}", path, partial(add_decorator, text, function))


def _other_expressions(text: str, function: FunctionInfo) -> str | None:
    lines = range(function.line, function.end_line + 1)
    return PRESERVING["equal-expressions"](text, lines) or PRESERVING["renamed-locals"](text, lines)


def _plain_function(text: str, name: str) -> ast.FunctionDef | None:
    """Returns the plain function of a qualified name, None where there is none."""
    node = find_function(parse(text), name)
    return node if isinstance(node, ast.FunctionDef) else None


def extract_helper(text: str, function: FunctionInfo) -> str | None:
    """Moves a function's body into a new function at the end of the module; None where that would change it."""
    node = _plain_function(text, function.name)
    if node is None or _needs_its_place(node):
        return None
    helper = f"_carry_out_{node.name.strip('_')}"
    lines = text.splitlines(keepends=True)
    body = lines[function.body_line - 1 : function.end_line]
    indent = re.match(r"\s*", body[0])
    first = indent[0] if indent else ""
    if not body[0].strip() or node.body[-1].lineno < function.body_line:
        return None
    call = f"{first}return {helper}({_passed(node.args)})\n"
    new = textwrap.indent(textwrap.dedent("".join(body)), "    ")
    lines[function.body_line - 1 : function.end_line] = [call]
    if not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return _compiled("".join(lines) + f"\n\ndef {helper}({_bare(node.args)}):\n{new}")


def _needs_its_place(node: ast.FunctionDef) -> bool:
    """Tells whether the body says something else in another function: `super()`, private names, a multi-line text."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    attributes = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    private = any(name.startswith("__") and not name.endswith("__") for name in names | attributes)
    constants = [n for part in node.body[1:] for n in ast.walk(part) if isinstance(n, ast.Constant)]
    texts = any(isinstance(c.value, str) and c.end_lineno != c.lineno for c in constants)
    return bool(names & {"super", "__class__"}) or private or texts


def _passed(given: ast.arguments) -> str:
    parts = [a.arg for a in (*given.posonlyargs, *given.args)]
    parts += [f"*{given.vararg.arg}"] if given.vararg else []
    parts += [f"{a.arg}={a.arg}" for a in given.kwonlyargs]
    return ", ".join([*parts, *([f"**{given.kwarg.arg}"] if given.kwarg else [])])


def _bare(given: ast.arguments) -> str:
    parts = [a.arg for a in (*given.posonlyargs, *given.args)]
    parts += [f"*{given.vararg.arg}"] if given.vararg else ["*"] if given.kwonlyargs else []
    parts += [a.arg for a in given.kwonlyargs]
    return ", ".join([*parts, *([f"**{given.kwarg.arg}"] if given.kwarg else [])])


def add_decorator(text: str, function: FunctionInfo) -> str | None:
    """Adds a decorator that only passes on, outside of the others; its own function follows what the module begins."""
    node = _plain_function(text, function.name)
    if node is None or _needs_its_place(node):
        return None
    heads = [n for n in parse(text).tree.body if isinstance(n, ast.Import | ast.ImportFrom | ast.Expr)]
    last = max((n.end_lineno or 0 for n in heads if (n.end_lineno or 0) < function.line), default=0)
    lines = text.splitlines(keepends=True)
    indent = lines[function.def_line - 1][: node.col_offset]
    lines.insert(function.line - 1, f"{indent}@_pass_through\n")
    lines.insert(last, _DECORATOR + "\n\n")
    return _compiled("".join(lines))


def _callers(text: str, function: FunctionInfo) -> Iterator[FunctionInfo]:
    """Yields the other functions of the file that name the repaired one."""
    last = function.name.rpartition(".")[2]
    lines = text.splitlines()
    for other in functions(parse(text)):
        body = "\n".join(lines[other.body_line - 1 : other.end_line])
        if other.name != function.name and "<locals>" not in other.name and re.search(rf"\b{last}\(", body):
            yield other


def _rename_private(task: RepairTask, path: str, text: str, name: str) -> str | None:
    """Renames a private function of the module; None where another file or a text names it."""
    pattern = re.compile(rf"\b{name}\b")
    elsewhere = any(name in other and pattern.search(other) for place, other in task.broken.items() if place != path)
    if elsewhere or re.search(rf"['\"]{name}['\"]", text):
        return None
    return _compiled(pattern.sub(f"{name}_anew", text))


def _compiled(text: str) -> str | None:
    """Returns the text where it is a program."""
    try:
        compile(text, "rewritten", "exec")
    except (SyntaxError, ValueError):
        return None
    return text
