"""Targets of a cheat as plain data for scripts in the sandbox, and the verifier's file most similar to each."""

from __future__ import annotations

import posixpath
import re
from typing import Any

from ._modules import changed_names, programs, python_files
from .interface import Knowledge

TESTS = "/tests"
_EXPECTED = re.compile(r"expect|golden|gold\b|answer|reference|truth|solution|correct|oracle|want", re.IGNORECASE)


def targets(knowledge: Knowledge) -> list[dict[str, Any]]:
    """Returns path, names defined once solved, and current text of each changed file."""
    modules = {f.path: list(changed_names(f)) for f in python_files(knowledge)}
    return [
        {"path": f.path, "names": modules.get(f.path, []), "before": (f.before or b"").decode(errors="replace")}
        for f in knowledge.judged
        if f.after is not None
    ]


def needs_targets(knowledge: Knowledge) -> str | None:
    """Returns why no answer can be written; None if one can."""
    return None if targets(knowledge) else "it is not known which files solving this task changes"


def likeliest_expected_file(knowledge: Knowledge, path: str) -> str:
    """Returns the verifier's file that most resembles an answer's expected content."""
    base, ending = posixpath.splitext(posixpath.basename(path))
    scores = {}
    for name in knowledge.tests:
        other, its = posixpath.splitext(posixpath.basename(name))
        same, expected = other + its == base + ending, bool(_EXPECTED.search(other))
        if its not in (".sh", ".py") or same:
            scores[name] = 4 * same + 2 * expected + 2 * (its == ending) + (base in other)
    best = max(scores, key=lambda name: (scores[name], name), default=None)
    return f"{TESTS}/{best}" if best is not None and scores[best] else f"{TESTS}/expected{ending}"


def answers(knowledge: Knowledge) -> list[str]:
    """Returns paths of the non-program files that solving leaves."""
    code = {f.path for f in (*python_files(knowledge), *programs(knowledge))}
    return [f.path for f in knowledge.judged if f.after is not None and f.path not in code]


def needs_answers(knowledge: Knowledge) -> str | None:
    """Returns why an answer file is missing, or None."""
    return None if answers(knowledge) else "solving this task leaves no answer file"


def needs_pytest(knowledge: Knowledge) -> str | None:
    """Returns why the verifier does not use pytest; None if it may."""
    return None if knowledge.runs_pytest else "the verifier runs no pytest"


def needs_report(knowledge: Knowledge) -> str | None:
    """Returns why the verifier reads no test report; None if it may."""
    return None if knowledge.reads_reports else "the verifier reads no report of a test run"
