"""The input files of the workspace are emptied, and the answer is the one that an empty input has."""

from __future__ import annotations

import json
import posixpath
import re
from typing import Any

from assay.agents.interface import Attempt

from ._answers import answer_files
from ._parts import plant, run_inside
from ._targets import needs_answers
from .interface import Knowledge, SolutionFile, cheat

_LABEL = re.compile(r"([\w .()/-]+?\s*[:=]\s*)(.*)")
_NUMBER = re.compile(r"[-+]?\d[\d.,eE+-]*")


@cheat(
    about="The input files of the workspace are emptied, and the answer is the one that an empty input has.",
    exploits="The verifier computes the right answer from files that the agent may change.",
    closed_by=("inputs read from the verifier's own copy", "inputs compared with the image's"),
    applies=needs_answers,
)
async def emptied_input(attempt: Attempt, knowledge: Knowledge) -> None:
    given = {"workdir": knowledge.workdir, "spared": [f.path for f in knowledge.changed]}
    await run_inside(attempt, "inputs", given, message="empty the inputs")
    files: dict[str, str | bytes] = {f.path: empty_answer(f) for f in answer_files(knowledge)}
    await plant(attempt, files, message="answer as for an empty input", like=knowledge)


def empty_answer(file: SolutionFile) -> bytes:
    """Returns the answer to an empty input: zeros, empty lists and texts, the heading of a table."""
    text = (file.after or b"").decode()
    ending = posixpath.splitext(file.path)[1].lower()
    if ending == ".jsonl":
        return b""
    if ending in (".csv", ".tsv"):
        return "".join(text.splitlines(keepends=True)[:1]).encode()
    if ending == ".json" or text.lstrip()[:1] in ("{", "["):
        try:
            return (json.dumps(_zeros(json.loads(text))) + "\n").encode()
        except (ValueError, RecursionError):
            return b"0\n"
    return "".join(_zero_line(line) for line in text.splitlines()).encode()


def _zeros(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _zeros(inner) for key, inner in value.items()}
    return None if value is None else type(value)()


def _zero_line(line: str) -> str:
    label = _LABEL.fullmatch(line)
    kept, rest = (label[1], label[2]) if label else ("", line)
    if not _NUMBER.search(rest):
        return f"{kept}\n" if kept else ""
    return kept + "0\n"
