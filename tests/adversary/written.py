"""Reads solutions written by hand: `right/TASK/NAME.py`, other algorithms or another structure than the reference.

A file is made of sections, each begun by a line `# in: PATH`. The body of a section's function replaces that of the
function of the same name in the file (a method stands inside `class NAME:`); decorators, signature and docstring stay.
What the file does not have is appended to it. Bodies replace those that the task left, so that a solution owes nothing
to the reference.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from assay.code.source import functions, parse

from .rewriting import Rewritten
from .synthesised import RepairTask

__all__ = ["WRITTEN", "apply_section", "written_solutions", "written_tasks"]

WRITTEN = Path(__file__).parent / "right"
_SECTION = re.compile(r"^# in: (\S+)\n", re.MULTILINE)


def written_tasks() -> set[str]:
    """Returns the ids of the tasks that solutions were written for."""
    return {path.name for path in WRITTEN.iterdir() if path.is_dir() and not path.name.startswith("_")}


def written_solutions(task: RepairTask) -> Iterator[Rewritten]:
    """Yields the solutions that were written for a task."""
    for path in sorted((WRITTEN / task.id).glob("*.py")):
        _, *parts = _SECTION.split(path.read_text(encoding="utf-8"))
        files: dict[str, str] = {}
        for name, section in zip(parts[::2], parts[1::2], strict=True):
            files[name] = apply_section(files.get(name, task.broken[name]), section)
        yield Rewritten(f"written-{path.stem.replace('_', '-')}", files)


def apply_section(text: str, section: str) -> str:
    """Returns a file's text with the functions of a section in place of its own, or appended."""
    for node in ast.parse(section).body:
        if isinstance(node, ast.ClassDef) and any(f.name.startswith(f"{node.name}.") for f in functions(parse(text))):
            for method in node.body:
                assert isinstance(method, ast.FunctionDef), f"only methods can be replaced in {node.name}"
                text = _replaced(text, f"{node.name}.{method.name}", _body(section, method))
        elif isinstance(node, ast.FunctionDef) and any(f.name == node.name for f in functions(parse(text))):
            text = _replaced(text, node.name, _body(section, node))
        else:
            text = f"{text.rstrip()}\n\n\n{ast.get_source_segment(section, node)}\n"
    return text


def _body(section: str, node: ast.FunctionDef) -> str:
    lines = section.splitlines(keepends=True)
    return textwrap.dedent("".join(lines[node.body[0].lineno - 1 : node.end_lineno]))


def _replaced(text: str, name: str, body: str) -> str:
    info = next(f for f in functions(parse(text)) if f.name == name)
    lines = text.splitlines(keepends=True)
    indent = re.match(r"\s*", lines[info.def_line - 1])
    lines[info.body_line - 1 : info.end_line] = [textwrap.indent(body, (indent[0] if indent else "") + " " * 4)]
    if not "".join(lines[: info.body_line]).endswith("\n"):
        raise ValueError(f"{name} stands on one line")
    return "".join(lines)
