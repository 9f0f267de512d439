"""Traces the deciding tests of candidates: through which entry points they reach what is changed, and with what.

The tracer is `payload/entry_trace.py`; this module sends requests and parses replies. Everything in a reply was written
in reach of the package's code: it only chooses between judging methods, each of which is proven before use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from assay.code.function_changes import FunctionChanges, compare_functions
from assay.code.source import SourceError
from assay.environments.payload import FORKED_TESTS

from ._laboratory import WORKSPACE, Laboratory, absolute_texts, import_paths, read_results
from ._tree import SourceTree

PAYLOAD = Path(__file__).with_name("payload")
_TRACER = (
    *("entry_trace", "entry_records", "package_functions", "value_shapes", "bare_items"),
    *("loaded_package", "shared_session", "collected_files", "versions_together"),
)
TRACER = tuple(PAYLOAD / f"{name}.py" for name in _TRACER)


class ValueKinds(msgspec.Struct, frozen=True):
    """The kinds of things that some values hold."""

    types: tuple[str, ...] = ()
    classes: dict[str, tuple[str, ...]] = {}
    """Class of the package, as `module:name`, to the fields that instances store."""
    callbacks: int = 0
    iterators: int = 0
    opaque: tuple[str, ...] = ()
    """Types of another origin."""
    inside: tuple[str, ...] = ()
    """Kinds of the parts, as in `EntryUse.inside`."""


class AnswerShape(msgspec.Struct, frozen=True, array_like=True):
    """The type of an answer, and the shapes of the parts of a short list or tuple, or of one item of a generator."""

    kind: str
    parts: tuple[AnswerShape, ...] | None = None

    def leaves(self) -> tuple[str, ...]:
        """Returns the types of all parts that hold no parts."""
        return tuple(kind for part in self.parts for kind in part.leaves()) if self.parts else (self.kind,)


class RecordedEntryCalls(msgspec.Struct, frozen=True):
    """The calls that one test makes of one entry point, as `payload/entry_records.py` describes them."""

    calls: int
    reaching: int
    compared: int
    answers: dict[str, int]
    changes: tuple[tuple[str, tuple[str, ...]], ...]
    lines: tuple[int, ...]
    arguments: ValueKinds
    results: ValueKinds
    shapes: tuple[AnswerShape, ...] = ()
    """Different shapes of answers, in order of appearance."""
    are_results_whole: bool = False
    """True if all answers were looked at."""
    handed: ValueKinds = ValueKinds()
    """What else reaches the test, as in `EntryUse.handed`."""
    is_handed_whole: bool = False
    """Whether all of that was looked at."""

    @property
    def answer_types(self) -> tuple[str, ...] | None:
        """Types of the answers, as in `EntryUse.answers`; None if not all of them were recorded."""
        if not self.are_results_whole:
            return None
        return tuple(sorted({*self.results.types, *(["iterator"] if self.results.iterators else [])}))

    @property
    def kinds_inside(self) -> tuple[str, ...] | None:
        """Kinds of what the answers hold, as in `EntryUse.inside`; None if not all of them were recorded."""
        return self.results.inside if self.are_results_whole else None

    @property
    def kinds_handed(self) -> tuple[str, ...] | None:
        """Kinds of what else reaches the test, as in `EntryUse.handed`; None if not all of it was recorded."""
        classes = {"type"} & {*self.handed.types}
        return tuple(sorted({*self.handed.inside, *classes})) if self.is_handed_whole else None

    @property
    def is_one_bit(self) -> bool:
        """Returns True where all answers are True, False, None or exceptions, and no change says more than they do.

        A short list or tuple of them, an empty one, and a generator that yields no more, are no more either. Where an
        answer is a truth value, changes do not count: a test may look at the truth value alone.
        """
        leaves = {kind for shape in self.shapes if shape.parts != () for kind in shape.leaves()}
        return leaves <= {"bool", "NoneType"} and (not self.changes or "bool" in leaves)


class TracedTest(msgspec.Struct, frozen=True):
    """One case of a test."""

    entries: tuple[str, ...] = ()
    """Entry points, as `module:qualified.name`."""
    problems: tuple[str, ...] = ()
    outcome: str = ""
    uses: dict[str, RecordedEntryCalls] = {}
    outside: tuple[tuple[str, str, int], ...] = ()
    """Functions of the package that ran outside of entry points: file, qualified name, first line."""
    inside: tuple[tuple[str, str, int], ...] = ()


class TraceResult(msgspec.Struct, frozen=True):
    id: str
    ended: Literal["done", "time", "died"] = "died"
    problems: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    entries: dict[str, str] = {}
    """Entry point to how it is bound."""
    tests: dict[str, TracedTest] = {}
    """Case to what it did."""


class TraceJob(NamedTuple):
    """Tests to be traced; names are relative to the tree."""

    id: str
    tests: tuple[str, ...]
    write: Mapping[str, str | None]
    """Texts of the unbroken version, where they differ from the tree's."""
    changed: Mapping[str, FunctionChanges]
    """File to what is changed in it."""
    cpu_s: float


def compare_changes(right: Mapping[str, str], broken: Mapping[str, str]) -> dict[str, FunctionChanges] | None:
    """Returns the differing functions of each changed file; None if a text cannot be parsed."""
    try:
        return {path: compare_functions(right[path], broken[path]) for path in sorted(broken)}
    except SourceError:
        return None


async def trace_entries(laboratory: Laboratory, tree: SourceTree, jobs: Sequence[TraceJob]) -> dict[str, TraceResult]:
    """Traces jobs, one after another; a job that gave no reply is `died`."""
    if not jobs:
        return {}
    request = {**describe_batch(tree), "jobs": [_request(job) for job in jobs]}
    wall_s = 120.0 + sum(30 * job.cpu_s for job in jobs)
    programs = (*TRACER, *FORKED_TESTS)
    reply = await laboratory.run_program(programs, msgspec.json.encode(request), wall_s, "plain")
    known = {result.id: result for result in read_results(reply, TraceResult)}
    return {job.id: known.get(job.id) or TraceResult(job.id) for job in jobs}


def describe_batch(tree: SourceTree) -> dict[str, Any]:
    """Returns the description of a tree that all payload programs read."""
    return {
        "root": WORKSPACE,
        "paths": import_paths(tree),
        "modules": [f"{WORKSPACE}/{path}" for path in tree.modules],
        "preload": list(tree.import_names),
        "seed": 0,
    }


def _request(job: TraceJob) -> dict[str, Any]:
    changed = [
        [f"{WORKSPACE}/{path}", one.last_name, one.line]
        for path, changes in sorted(job.changed.items())
        for one in changes.functions
    ]
    return {
        "id": job.id,
        "tests": [f"{WORKSPACE}/{test}" for test in job.tests],
        "write": absolute_texts(job.write),
        "changed": changed,
        "cpu_s": job.cpu_s,
    }
