"""Writes a question about one call as a task; the answer is in `tests/` and `solution/` alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from assay.code.excerpts import Excerpt
from assay.tasks.assay_config import AssayTable, CheckTable, WorkspaceTable
from assay.tasks.harbor_config import EnvironmentTable, HarborAgentTable, HarborTask, PackageTable, VerifierTable
from assay.tasks.write import TaskDraft
from assay.verify.answer_check import ANSWER_FILE, EXPECTED_FILE
from assay.verify.calls import CallProgram

from ._laboratory import WORKSPACE
from ._opening import OpenedSource
from ._plain_calls import PlainFunction
from ._task_folder import package_masks
from ._tree import SourceTree

TIMEOUT_S = 300.0
_DOCKERFILE = "FROM scratch\nWORKDIR /workspace\n"
_SOLVE = f'#!/bin/sh\nset -e\ncp "$(dirname "$0")/{ANSWER_FILE}" {WORKSPACE}/{ANSWER_FILE}\n'
_TEST = """#!/bin/sh
echo 'This task is judged by the check "answer" of Assay, which compares a file as data.' >&2
exit 1
"""


class ExecutionQuestion(NamedTuple):
    function: PlainFunction
    call: str
    """The call as Python text."""
    kind: str
    location: tuple[int, int, str] | None
    """Line, number of times it has run, and variable; None for the call's result."""
    answer: str
    """A line of JSON."""
    excerpts: Mapping[str, Excerpt]
    """The source lines that the instruction shows, by file."""

    def identity(self, tree: SourceTree, number: int) -> str:
        """Returns the task's id, which does not reveal the answer."""
        words = [tree.name, PurePosixPath(self.function.path).stem, self.function.name, self.kind, str(number)]
        return "-".join(re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-") for word in words)


def format_call(name: str, call: CallProgram) -> str:
    """Returns a call as Python text."""
    args, named = call.operations[0][4:6]
    arguments = [repr(_python_value(tree)) for tree in args] + [f"{key}={_python_value(tree)!r}" for key, tree in named]
    return f"{name}({', '.join(arguments)})"


def _python_value(tree: Any) -> Any:
    if not isinstance(tree, list):
        return tree
    if tree[0] == "f":
        return float.fromhex(tree[1])
    parts = [_python_value(part) for part in tree[1:]]
    if tree[0] == "d":
        return dict(zip(parts[::2], parts[1::2], strict=True))
    return tuple(parts) if tree[0] == "t" else parts


def draft_question(source: OpenedSource, question: ExecutionQuestion, identity: str) -> TaskDraft:
    tree = source.tree
    answer = question.answer + "\n"
    files: dict[str, str | bytes] = {
        "instruction.md": write_instruction(tree, question),
        "environment/Dockerfile": _DOCKERFILE,
        "solution/solve.sh": _SOLVE,
        f"solution/{ANSWER_FILE}": answer,
        "tests/test.sh": _TEST,
        EXPECTED_FILE: answer,
    }
    config = HarborTask(
        task=PackageTable(name=f"assay/{identity}", description=f"Follow a call of {question.function.name}"),
        agent=HarborAgentTable(timeout_sec=TIMEOUT_S),
        verifier=VerifierTable(timeout_sec=TIMEOUT_S),
        environment=EnvironmentTable(memory_mb=1024, workdir=WORKSPACE, network_mode="no-network"),
    )
    table = AssayTable(
        tags=("synthesised", "question", question.kind),
        source=f"{tree.title} ({tree.kind})",
        environment=WorkspaceTable(masks=package_masks(tree)),
        checks=(CheckTable("answer", "answer"),),
        provenance={"made_by": "assay synth questions", **tree.provenance},
    )
    return TaskDraft(files=files, config=config, assay=table)


def write_instruction(tree: SourceTree, question: ExecutionQuestion) -> str:
    """Returns the question, with the source that the call runs."""
    sources = "\n".join(f"`{path}`:\n\n{_number_lines(one)}\n" for path, one in question.excerpts.items())
    return f"""This is the part of the Python package {tree.title} that the call below runs, with its line numbers.

{sources}
The call, in a fresh process in which nothing else ran:

    {question.call}

{_phrase_question(question)} Work it out from the source, and write it to `{WORKSPACE}/{ANSWER_FILE}` as JSON:

    {{"result": VALUE}}

Lists and tuples are arrays, dictionaries are objects, None is null; an iterator is the array of all its items. Where
the call raises an exception: `{{"error": "NAME"}}`, with the name of its class. The value must be exact.
"""


def _phrase_question(question: ExecutionQuestion) -> str:
    if question.location is None:
        return "What does it return?"
    line, count, name = question.location
    times = {1: "the first time", 2: "the second time", 3: "the third time"}.get(count, f"the {count}th time")
    variable = f"the local variable `{name}` of `{question.function.name}`"
    return f"What is the value of {variable} when line {line} has run {times}?"


def _number_lines(excerpt: Excerpt) -> str:
    width = len(str(excerpt.lines[-1][0])) if excerpt.lines else 1
    lines, last = [], None
    for number, text in excerpt.lines:
        if last is not None and number > last + 1:
            lines.append("    ...")
        lines.append(f"    {number:>{width}}  {text}".rstrip())
        last = number
    return "\n".join(lines)
