"""Finds deciding tests that pass on the unrepaired package while entry points, or functions below them, answer falsely.

The program is `payload/false_entries.py`. A test that passes with a false answer cannot be judged by splicing: a worker
that contains no code, or a package edited to answer falsely, would satisfy it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.environments.payload import FORKED_TESTS

from ._entry_trace import PAYLOAD, TRACER, AnswerShape, RecordedEntryCalls, TracedTest, describe_batch
from ._laboratory import WORKSPACE, Laboratory, absolute_texts, read_results
from ._tree import SourceTree

PROGRAMS = tuple(
    PAYLOAD / f"{name}.py" for name in ("false_entries", "false_answers", "repeated_answers", "sibling_functions")
)
HONEST = "unrepaired"
"""Answers as the package does: told first, so that a test that passes under it needs no lie."""
ANSWERS = (
    HONEST, "None", "True", "False", "0", "1", "empty text", "empty list", "empty dict", "empty tuple",
    "empty set", "first argument", "second argument", "own argument", "previous argument", "last value sent",
    "first answer again", "plausible value", "flipped", "bent", "arguments emptied", "emptied answer",
    "every key is 0", "every key is empty", "all text", "infinity", "minus infinity", "all numbers",
    "nan", "all parts", "remembered argument", "empty iterator", "None where it raises", "True where it raises",
    "False where it raises", "empty list where it raises", "own argument where it raises", "raise AttributeError",
    "raise IndexError", "raise KeyError", "raise TypeError", "arguments levelled",
)  # fmt: skip
"""Names in the table of `payload/false_answers.py`, and exceptions that Python's own protocols take for an answer."""
SHAPED_ANSWERS = tuple(
    f"truth values {truth}, the rest {rest}" for truth in ("True", "False") for rest in ("empty", "None")
)
"""Told where the reference answers with truth values in lists or tuples."""
LIARS_ANSWERS = (
    "None", "True", "False", "0", "empty text", "empty list", "empty dict", "empty tuple", "first argument",
    "own argument", "remembered argument", "plausible value", "arguments emptied", "empty iterator",
    "None where it raises", "True where it raises", "False where it raises", "arguments levelled",
)  # fmt: skip
"""Told by some entry points of a test while its others stay unrepaired."""
MOST_LIARS = 8
"""Entry points of one test that lie alone, drawn by a seed."""
EDIT_ANSWERS = ("None", "True", "first argument")
MOST_EDITS = 8
"""Maximum number of unchanged functions edited to answer falsely, drawn by a seed from those that run during a task's
tests."""
MOST_EXCEPTIONS = 3
MOST_SIBLINGS = 40
"""Functions beside an entry point, the most similar first, as which it answers."""
LIARS_SIBLINGS = 6
"""The same where some entry points of a test lie alone."""


class FalseAnswerJob(NamedTuple):
    """Tests of one candidate to be run with false answers; names are relative to the tree."""

    id: str
    write: Mapping[str, str | None]
    """Texts of the unrepaired version, where they differ from the tree's."""
    tests: Mapping[str, TracedTest]
    """Case to what it does with the reference."""
    changed: frozenset[tuple[str, str]]
    """File and name of what the task changes."""
    cpu_s: float


class FalseAnswerResult(msgspec.Struct, frozen=True):
    """Which tests passed under a lie."""

    id: str
    ended: str = "died"
    passed: dict[str, str] = {}
    """Test to the first lie that it passed under, or whose run had no end."""

    def describe_lie(self, test: str) -> str:
        """Returns the lie that a test passed under, as a reason ends; empty where it failed under all."""
        lie = self.passed.get(test, "")
        liars, is_alone, answer = lie.partition(" alone: ")
        if is_alone:
            return f"entry point {liars} answers: {answer}, the others are unrepaired"
        return lie if not lie or " edited: " in lie else f"entry points answer: {lie}"


def choose_false_answers(job: FalseAnswerJob) -> dict[str, Any]:
    """Returns the lies of a job as the program reads them: answers, liars among a test's entry points, and edits."""
    uses = [use for test in job.tests.values() for use in test.uses.values()]
    raised = sorted({kind for use in uses for kind in use.answers if kind.startswith("raise ")})
    more = [*(SHAPED_ANSWERS if any(map(_truth_shapes, uses)) else ()), *raised[:MOST_EXCEPTIONS]]
    return {
        "answers": [*ANSWERS, *more],
        "liars": _liars(job),
        "liars_answers": [*LIARS_ANSWERS, *more],
        "edits": [[path, name, line] for path, name, line in _choose_edits(job)],
        "changed": [[path, name, line] for path, name, line in _changed_inside(job)],
        "edit_answers": list(EDIT_ANSWERS),
        "siblings": MOST_SIBLINGS,
        "liars_siblings": LIARS_SIBLINGS,
    }


def _liars(job: FalseAnswerJob) -> list[dict[str, list[str]]]:
    """Returns who lies in each test of some runs: one of several entry points, and those that answer more than None.

    A function that answers nothing, such as a constructor, breaks a test at once where it lies beside the others.
    """
    runs: dict[int, dict[str, list[str]]] = {}
    for case, test in sorted(job.tests.items()):
        entries = sorted(test.uses)
        alone = random.Random(f"{job.id} {case} liars").sample(entries, min(MOST_LIARS, len(entries)))
        more = [entry for entry in entries if set(test.uses[entry].answers) - {"NoneType"}]
        groups = [[entry] for entry in sorted(alone)] + ([more] if 1 < len(more) < len(entries) else [])
        for number, liars in enumerate(groups if len(entries) > 1 else ()):
            runs.setdefault(number, {})[case] = liars
    return [runs[number] for number in sorted(runs)]


def _truth_shapes(use: RecordedEntryCalls) -> list[AnswerShape]:
    """Returns the shapes of answers that are lists, tuples or items of generators, and hold truth values."""
    return [shape for shape in use.shapes if shape.parts is not None and "bool" in shape.leaves()]


def _choose_edits(job: FalseAnswerJob) -> Iterable[tuple[str, str, int]]:
    """Returns functions that run inside of entry points: those that the task changes, and a draw of the others, of
    which those that tests also call outside of them come first. A changed entry point answers falsely anyway."""
    own = {(f"{WORKSPACE}/{path}", name) for path, name in job.changed}
    outside = {function for test in job.tests.values() for function in test.outside}
    inside = {function for test in job.tests.values() for function in test.inside if function[:2] not in own}
    drawn: list[tuple[str, str, int]] = []
    for functions in (sorted(inside & outside), sorted(inside - outside)):
        remaining = MOST_EDITS - len(drawn)
        drawn += (
            functions if len(functions) <= remaining else random.Random(f"{job.id} edits").sample(functions, remaining)
        )
    return sorted([*_changed_inside(job), *drawn])


def _changed_inside(job: FalseAnswerJob) -> list[tuple[str, str, int]]:
    """Returns the functions that the task changes and that run inside of entry points without being any."""
    own = {(f"{WORKSPACE}/{path}", name) for path, name in job.changed}
    entries = {entry.partition(":")[2] for test in job.tests.values() for entry in test.uses}
    inside = {function for test in job.tests.values() for function in test.inside if function[:2] in own}
    return sorted(function for function in inside if function[1] not in entries)


async def run_false_answers(
    laboratory: Laboratory, tree: SourceTree, jobs: Sequence[FalseAnswerJob]
) -> dict[str, FalseAnswerResult]:
    """Runs the jobs one after another; a job that gave no reply is `died`."""
    if not jobs:
        return {}
    request = {**describe_batch(tree), "jobs": [_request(job) for job in jobs]}
    wall_s = 120.0 + sum(90 * job.cpu_s for job in jobs)
    programs = (*PROGRAMS, *TRACER, *FORKED_TESTS)
    reply = await laboratory.run_program(programs, msgspec.json.encode(request), wall_s, "plain")
    known = {result.id: result for result in read_results(reply, FalseAnswerResult)}
    return {job.id: known.get(job.id) or FalseAnswerResult(job.id) for job in jobs}


def _request(job: FalseAnswerJob) -> dict[str, Any]:
    return {
        "id": job.id,
        "tests": [f"{WORKSPACE}/{case}" for case in sorted(job.tests)],
        "write": absolute_texts(job.write),
        "uses": {case: {e: _describe_use(use) for e, use in test.uses.items()} for case, test in job.tests.items()},
        "test_cpu_s": 1.0,
        "cpu_s": job.cpu_s,
        **choose_false_answers(job),
    }


def _describe_use(use: RecordedEntryCalls) -> dict[str, Any]:
    return {"results": use.results.types, "changes": use.changes, "shapes": _truth_shapes(use)}
