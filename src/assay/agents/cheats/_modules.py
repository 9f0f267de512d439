"""Stand-ins for the modules that solving changes: same names, other bodies.

Only the shape of the reference solution is used: its functions, classes and return annotations, never their bodies.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable
from functools import lru_cache
from itertools import takewhile

from assay.code.source import parse_tree

from .interface import Knowledge, SolutionFile

Body = Callable[[str | None], str]
"""Maps a function's annotated return type (outermost name, or None) to the one statement of its body."""


def python_files(knowledge: Knowledge) -> tuple[SolutionFile, ...]:
    """Returns the modules that solving changes, without tests."""
    found = (f for f in knowledge.judged if f.path.endswith(".py") and f.after is not None)
    return tuple(f for f in found if not _is_test(f.path))


def programs(knowledge: Knowledge) -> tuple[SolutionFile, ...]:
    """Returns other changed programs: files with an interpreter line, and shell scripts."""
    found = (f for f in knowledge.judged if f.after is not None and not f.path.endswith(".py"))
    return tuple(f for f in found if (f.after or b"").startswith(b"#!") or f.path.endswith(".sh"))


def needs_python(knowledge: Knowledge) -> str | None:
    """Returns why the cheat cannot be tried on a module under test; None if it can."""
    return None if python_files(knowledge) else "solving this task changes no Python module"


def needs_program(knowledge: Knowledge) -> str | None:
    """Returns why the cheat cannot be tried on a program under test; None if it can."""
    return None if python_files(knowledge) or programs(knowledge) else "solving this task changes no program"


def _is_test(path: str) -> bool:
    name = posixpath.basename(path)
    return name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"


@lru_cache(maxsize=8)
def _parsed(data: bytes | None) -> ast.Module | None:
    """Returns a tree that is shared by all cheats of a task, and not changed; None where the text does not parse."""
    try:
        return parse_tree((data or b"").decode())
    except (SyntaxError, ValueError, RecursionError):
        return None


def _before(file: SolutionFile) -> str:
    """Returns the original module if it can be run, otherwise its interpreter line, if any."""
    if file.before is not None and _parsed(file.before) is not None:
        return file.before.decode()
    first = (file.after or b"").partition(b"\n")[0]
    return first.decode(errors="replace") + "\n" if first.startswith(b"#!") else ""


def insert_prologue(file: SolutionFile, code: str) -> str:
    """Returns the original module with code that runs before it."""
    text = _before(file)
    lines = text.splitlines(keepends=True)
    place = len(list(takewhile(lambda line: line.startswith("#"), lines)))
    for index, node in enumerate(parse_tree(text).body):
        documented = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not documented and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        place = max(place, node.end_lineno or 0)
    return "".join(lines[:place]) + code.strip() + "\n" + "".join(lines[place:])


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _definitions(module: ast.Module | None) -> dict[str, Definition]:
    return {n.name: n for n in (module.body if module else []) if isinstance(n, Definition)}


def changed_names(file: SolutionFile) -> dict[str, Definition]:
    """Returns functions and classes that solving adds or changes; all of them if unknown."""
    after, before = _dumped(file.after), _dumped(file.before)
    definitions = _definitions(_parsed(file.after))
    return {n: d for n, d in definitions.items() if before.get(n) != after[n]} or definitions


@lru_cache(maxsize=8)
def _dumped(data: bytes | None) -> dict[str, str]:
    return {name: ast.dump(node) for name, node in _definitions(_parsed(data)).items()}


def override_bodies(file: SolutionFile, body: Body, *, prelude: str = "", base: str = "object") -> str:
    """Returns the original module, followed by every changed function and method with another body.

    `prelude` is code that the bodies need; `base` is the base class of changed classes that have none.
    """
    parts = [_before(file).rstrip("\n"), prelude.strip(), *_missing_constants(file)]
    known = _definitions(_parsed(file.before))
    for node in changed_names(file).values():
        was = known.get(node.name)
        if not isinstance(node, ast.ClassDef):
            parts.append(_function(node, body, ""))
        elif isinstance(was, ast.ClassDef):  # the rest of it goes on: other code is built on it
            parts += [_replaced(node.name, method, body) for method in _changed_methods(was, node)]
        else:
            parts.append(_class(node, body, base))
    return "\n\n\n".join(part for part in parts if part) + "\n"


def _missing_constants(file: SolutionFile) -> list[str]:
    before, after = _parsed(file.before), _parsed(file.after)
    known = {t.id for n in (before.body if before else []) for t in _targets(n)}
    wanted = [t.id for n in (after.body if after else []) for t in _targets(n)]
    return [f"{name} = None" for name in dict.fromkeys(wanted) if name not in known]


def _targets(node: ast.stmt) -> list[ast.Name]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target for target in targets if isinstance(target, ast.Name)]


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef, body: Body, indent: str) -> str:
    kept = [d.id for d in node.decorator_list if isinstance(d, ast.Name) and d.id in _KEPT]
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    head = "".join(f"{indent}@{name}\n" for name in kept)
    return f"{head}{indent}{word} {node.name}(*given, **named):\n{indent}    {body(_returns(node))}"


_KEPT = {"staticmethod", "classmethod", "property"}


def _returns(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    found = node.returns.value if isinstance(node.returns, ast.Subscript) else node.returns
    return found.id if isinstance(found, ast.Name) else None


Method = ast.FunctionDef | ast.AsyncFunctionDef


def _changed_methods(was: ast.ClassDef, node: ast.ClassDef) -> list[Method]:
    """Returns the methods that differ; every plain one if the class differs elsewhere."""
    before = {m.name: ast.dump(m) for m in was.body if isinstance(m, Method)}
    methods = [m for m in node.body if isinstance(m, Method)]
    changed = [m for m in methods if before.get(m.name) != ast.dump(m)]
    return changed or [m for m in methods if not m.name.startswith("__")]


def _replaced(owner: str, method: Method, body: Body) -> str:
    """Returns a method of an existing class with another body."""
    kept = next((d.id for d in method.decorator_list if isinstance(d, ast.Name) and d.id in _KEPT), "")
    plain = "pass" if method.name == "__init__" and not body(None).startswith("raise") else body(_returns(method))
    word = "async def" if isinstance(method, ast.AsyncFunctionDef) else "def"
    made = f"{kept}(_instead)" if kept else "_instead"
    return f"{word} _instead(*given, **named):\n    {plain}\n\n\n{owner}.{method.name} = {made}"


def _class(node: ast.ClassDef, body: Body, base: str) -> str:
    derived = ast.unparse(node.bases[0]) if node.bases and isinstance(node.bases[0], ast.Name) else base
    methods = [n for n in node.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    plain = [_function(m, body, "    ") for m in methods if not m.name.startswith("__")]
    begin = "    def __init__(self, *given, **named):\n        pass"
    return "\n\n".join([f"class {node.name}({derived}):", begin, *plain])
