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

from ._entry_trace import PAYLOAD, TRACER, TracedTest, describe_batch
from ._laboratory import WORKSPACE, Laboratory, absolute_texts, read_results
from ._tree import SourceTree

PROGRAMS = tuple(PAYLOAD / f"{name}.py" for name in ("false_entries", "false_answers"))
ANSWERS = (
    "unrepaired", "None", "True", "False", "0", "1", "empty text", "empty list", "empty dict", "empty tuple",
    "empty set", "first argument", "second argument", "own argument", "previous argument", "last value sent",
    "first answer again", "plausible value", "flipped", "bent", "arguments emptied", "emptied answer",
    "every key is 0", "every key is empty", "all text", "infinity", "minus infinity", "all numbers",
    "raise AttributeError", "raise IndexError", "raise KeyError", "raise TypeError",
)  # fmt: skip
"""Names in the table of `payload/false_answers.py`, and exceptions that Python's protocols treat as an answer."""
EDIT_ANSWERS = ("None", "True", "first argument")
MOST_EDITS = 8
"""Maximum number of functions edited to answer falsely, drawn by a seed from those that run during a task's tests."""
MOST_EXCEPTIONS = 3


class FalseAnswerJob(NamedTuple):
    """Tests of one candidate to be run with false answers; names are relative to the tree."""

    id: str
    write: Mapping[str, str | None]
    """Texts of the unrepaired version, where they differ from the tree's."""
    tests: Mapping[str, TracedTest]
    """Case to what it does with the reference."""
    changed: frozenset[tuple[str, str]]
    """File and name of what the task changes: an edit there may repair it."""
    cpu_s: float


class FalseAnswerResult(msgspec.Struct, frozen=True):
    """Tests that passed with each false answer."""

    id: str
    ended: str = "died"
    passed: dict[str, tuple[str, ...] | None] = {}
    """False answer to the tests that passed with it; None if its run did not end."""

    def passing_answers(self, test: str) -> tuple[str, ...]:
        """Returns the false answers with which a test passes; one whose run did not end counts as passed."""
        return tuple(answer for answer, passed in sorted(self.passed.items()) if passed is None or test in passed)


def choose_false_answers(job: FalseAnswerJob) -> dict[str, Any]:
    """Returns the false answers of a job in the program's format: answers of entry points, and edited functions."""
    raised = sorted({kind for test in job.tests.values() for use in test.uses.values() for kind in use.answers})
    exceptions = [kind for kind in raised if kind.startswith("raise ")][:MOST_EXCEPTIONS]
    return {
        "answers": [*ANSWERS, *exceptions],
        "edits": [[path, name, line] for path, name, line in _choose_edits(job)],
        "edit_answers": list(EDIT_ANSWERS),
    }


def _choose_edits(job: FalseAnswerJob) -> Iterable[tuple[str, str, int]]:
    """Returns functions that run inside entry points; those that tests also call outside of them come first."""
    own = {(f"{WORKSPACE}/{path}", name) for path, name in job.changed}
    outside = {function for test in job.tests.values() for function in test.outside}
    inside = {function for test in job.tests.values() for function in test.inside if function[:2] not in own}
    drawn: list[tuple[str, str, int]] = []
    for functions in (sorted(inside & outside), sorted(inside - outside)):
        remaining = MOST_EDITS - len(drawn)
        drawn += (
            functions if len(functions) <= remaining else random.Random(f"{job.id} edits").sample(functions, remaining)
        )
    return sorted(drawn)


async def run_false_answers(
    laboratory: Laboratory, tree: SourceTree, jobs: Sequence[FalseAnswerJob]
) -> dict[str, FalseAnswerResult]:
    """Runs the jobs one after another; a job that gave no reply is `died`."""
    if not jobs:
        return {}
    request = {**describe_batch(tree), "jobs": [_request(job) for job in jobs]}
    wall_s = 120.0 + sum(60 * job.cpu_s for job in jobs)
    programs = (*PROGRAMS, *TRACER, FORKED_TESTS)
    reply = await laboratory.run_program(programs, msgspec.json.encode(request), wall_s)
    known = {result.id: result for result in read_results(reply, FalseAnswerResult)}
    return {job.id: known.get(job.id) or FalseAnswerResult(job.id) for job in jobs}


def _request(job: FalseAnswerJob) -> dict[str, Any]:
    results: dict[str, set[str]] = {}
    for test in job.tests.values():
        for entry, use in test.uses.items():
            results.setdefault(entry, set()).update(use.results.types)
    return {
        "id": job.id,
        "tests": [f"{WORKSPACE}/{case}" for case in sorted(job.tests)],
        "write": absolute_texts(job.write),
        "uses": {case: {e: use.changes for e, use in test.uses.items()} for case, test in job.tests.items()},
        "results": {entry: sorted(types) for entry, types in results.items()},
        "test_cpu_s": 1.0,
        "cpu_s": job.cpu_s,
        **choose_false_answers(job),
    }
