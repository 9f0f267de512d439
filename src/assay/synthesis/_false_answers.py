"""Asks which deciding tests pass while nothing is repaired and the entry points, or functions below them, lie.

The program is `payload/entry_lies.py`. A test that passes under one lie cannot be judged by splicing: a worker that
holds no code, or a package that is edited to lie, would satisfy it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.environments.payload import FORKED_TESTS

from ._entry_trace import MAX_REPLY_BYTES, PAYLOAD, TRACER, AnswerShape, EntryCalls, TracedTest, batch_of
from ._laboratory import WORKSPACE, Laboratory
from ._tree import SourceTree

__all__ = ["LieJob", "LieResult", "lies_of", "tell_lies"]

LIARS = tuple(PAYLOAD / f"{name}.py" for name in ("entry_lies", "false_answers"))
ANSWERS = (
    "unrepaired", "None", "True", "False", "0", "1", "empty text", "empty list", "empty dict", "empty tuple",
    "empty set", "first argument", "second argument", "own argument", "previous argument", "last value sent",
    "first answer again", "plausible value", "flipped", "bent", "arguments emptied", "emptied answer",
    "every key is 0", "every key is empty", "all text", "infinity", "minus infinity", "all numbers",
    "remembered argument", "empty iterator", "None where it raises", "True where it raises", "False where it raises",
    "empty list where it raises", "own argument where it raises",
    "raise AttributeError", "raise IndexError", "raise KeyError", "raise TypeError",
)  # fmt: skip
"""Names in the table of `payload/false_answers.py`, and exceptions that Python's own protocols take for an answer."""
SHAPED_ANSWERS = tuple(
    f"truth values {truth}, the rest {rest}" for truth in ("True", "False") for rest in ("empty", "None")
)
"""Told where the reference answers with truth values in lists or tuples."""
LIARS_ANSWERS = (
    "None", "True", "False", "0", "empty text", "empty list", "empty dict", "empty tuple", "first argument",
    "own argument", "remembered argument", "plausible value", "arguments emptied", "empty iterator",
    "None where it raises",
)  # fmt: skip
"""Told by some entry points of a test while its others stay unrepaired."""
MOST_LIARS = 8
"""Entry points of one test that lie alone, drawn by a seed."""
EDIT_ANSWERS = ("None", "True", "first argument")
MOST_EDITS = 8
"""Functions of the package that are edited to lie, drawn by a seed from those that run during a task's tests."""
MOST_EXCEPTIONS = 3


class LieJob(NamedTuple):
    """The tests of one candidate that are to be lied to; names are relative to the tree."""

    id: str
    write: Mapping[str, str | None]
    """Texts of the unrepaired version, where they differ from the tree's."""
    tests: Mapping[str, TracedTest]
    """Case to what it does with the reference."""
    changed: frozenset[tuple[str, str]]
    """File and name of what the task changes: an edit there may repair it."""
    cpu_s: float


class LieResult(msgspec.Struct, frozen=True):
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


def lies_of(job: LieJob) -> dict[str, Any]:
    """Returns the lies of a job as the program reads them: answers, liars among a test's entry points, and edits."""
    uses = [use for test in job.tests.values() for use in test.uses.values()]
    raised = sorted({kind for use in uses for kind in use.answers if kind.startswith("raise ")})
    more = [*(SHAPED_ANSWERS if any(map(_truth_shapes, uses)) else ()), *raised[:MOST_EXCEPTIONS]]
    return {
        "answers": [*ANSWERS, *more],
        "liars": _liars(job),
        "liars_answers": [*LIARS_ANSWERS, *more],
        "edits": [[path, name, line] for path, name, line in _edited(job)],
        "edit_answers": list(EDIT_ANSWERS),
    }


def _liars(job: LieJob) -> list[dict[str, list[str]]]:
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


def _truth_shapes(use: EntryCalls) -> list[AnswerShape]:
    """Returns the shapes of answers that are lists, tuples or items of generators, and hold truth values."""
    return [shape for shape in use.shapes if shape.parts is not None and "bool" in shape.leaves()]


def _edited(job: LieJob) -> Iterable[tuple[str, str, int]]:
    """Returns functions that run inside of entry points; those that tests also call outside of them come first."""
    own = {(f"{WORKSPACE}/{path}", name) for path, name in job.changed}
    outside = {place for test in job.tests.values() for place in test.outside}
    inside = {place for test in job.tests.values() for place in test.inside if place[:2] not in own}
    drawn: list[tuple[str, str, int]] = []
    for places in (sorted(inside & outside), sorted(inside - outside)):
        left = MOST_EDITS - len(drawn)
        drawn += places if len(places) <= left else random.Random(f"{job.id} edits").sample(places, left)
    return sorted(drawn)


async def tell_lies(laboratory: Laboratory, tree: SourceTree, jobs: Sequence[LieJob]) -> dict[str, LieResult]:
    """Runs the jobs one after another; a job that gave no reply is `died`."""
    if not jobs:
        return {}
    request = {**batch_of(tree), "jobs": [_request(job) for job in jobs]}
    wall_s = 120.0 + sum(90 * job.cpu_s for job in jobs)
    programs = (*LIARS, *TRACER, FORKED_TESTS)
    reply = await laboratory.run_program(programs, msgspec.json.encode(request), wall_s)
    known = {result.id: result for result in _read_results(reply)}
    return {job.id: known.get(job.id) or LieResult(job.id) for job in jobs}


def _request(job: LieJob) -> dict[str, Any]:
    return {
        "id": job.id,
        "tests": [f"{WORKSPACE}/{case}" for case in sorted(job.tests)],
        "write": {f"{WORKSPACE}/{path}": text for path, text in job.write.items()},
        "uses": {case: {e: _described(use) for e, use in test.uses.items()} for case, test in job.tests.items()},
        "test_cpu_s": 1.0,
        "cpu_s": job.cpu_s,
        **lies_of(job),
    }


def _described(use: EntryCalls) -> dict[str, Any]:
    return {"results": use.results.types, "changes": use.changes, "shapes": _truth_shapes(use)}


def _read_results(reply: bytes) -> tuple[LieResult, ...]:
    if len(reply) > MAX_REPLY_BYTES:
        return ()
    decoder = msgspec.json.Decoder(LieResult)
    try:
        return tuple(decoder.decode(line) for line in reply.splitlines() if line.strip())
    except (msgspec.MsgspecError, RecursionError):
        return ()
