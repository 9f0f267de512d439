"""Repairs of all changes of a task but one, in which an entry point lies about the one that is left.

A test that alone notices a change may believe an entry point that answers True; every other test is satisfied by the
changes that were repaired.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from assay.code.source import FunctionInfo
from assay.synthesis._parts import return_constant, split_hunks

from .attempts import Assignment
from .library import DEMO, Script
from .synthesised import RepairTask, script_of_edits

__all__ = ["partial_repairs"]

_WHERE_IT_RAISES = """

_honest_{name} = {name}


def {name}(*args, **named):
    try:
        return _honest_{name}(*args, **named)
    except Exception:
        return True
"""


def partial_repairs(folders: Sequence[Path], seed: int, most: int = 6) -> Iterator[Assignment]:
    """Yields, for each change that is left of each task of several, a draw of `most` entry points of the deciding
    tests under each lie."""
    for folder in folders:
        task = RepairTask(folder)
        parts = split_hunks(task.repaired, {path: task.broken[path] for path in task.repaired})
        deciding = {use.entry.rpartition(":")[2] for test in task.plan.tests if test.decides for use in test.uses}
        entries = [(path, function) for path, function in task.entry_functions() if function.name in deciding]
        for number, part in enumerate(parts if len(parts) > 1 else (), 1):
            drawn = random.Random(f"{seed} {task.id} {number}").sample(entries, min(most, len(entries)))
            for lie, path, function, files in _lies({**task.repaired, **part}, task, drawn):
                text = script_of_edits({name: task.broken[name] for name in files}, files)
                name = f"partial-{number}-{lie}-{Path(path).stem}-{function.replace('.', '-')}".replace("_", "-")
                summary = f"leaves change {number} of {len(parts)}; {function} of {path}: {lie}"
                script = Script(name, "edit", (DEMO,), text, summary, f"partial={lie}")
                yield Assignment(script, f"{DEMO}-{task.id}", folder)


def _lies(
    files: dict[str, str], task: RepairTask, entries: Sequence[tuple[str, FunctionInfo]]
) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Yields lie, path, function and files; the partial repair by itself first."""
    yield "honest", next(iter(task.repaired)), "none", files
    for path, function in entries:
        text = files.get(path, task.broken[path])
        for constant in ("True", "None"):
            yield constant.lower(), path, function.name, {**files, path: return_constant(text, function.name, constant)}
        if "." not in function.name:
            more = _WHERE_IT_RAISES.format(name=function.name)
            yield "true-where-it-raises", path, function.name, {**files, path: text + more}
