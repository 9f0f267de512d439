"""Straight-line programs of public calls: a test's use of a package, as data.

A recorded file of tests is one list of operations. A program belongs to an operation inside which a target function
ran: the operations that built its arguments, the operation itself, and the test's later reads of the result. Invariant:
a program refers to results of its own earlier operations alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from .languages import ProgramLanguage

MAX_OPERATIONS = 60
MAX_READ_BACK = 12
MAX_PER_TEST = 6
MAX_PROGRAMS = 40


class RecordedOperation(msgspec.Struct, frozen=True):
    n: int
    test: str
    op: list[Any]
    """Number, kind, and the rest as `payload/call_programs.py` performs it."""
    target: bool
    """A target function ran inside it."""
    result: Literal["none", "data", "instance", "iterator", "raised", ""]
    of: str = ""
    """Type of the result or of the exception."""
    compared: bool = False
    """The test compares the result, or reads it in a way that is not recorded."""


class Recording(msgspec.Struct, frozen=True):
    file: str
    operations: tuple[RecordedOperation, ...]
    failed: tuple[str, ...] = ()


class CallProgram(msgspec.Struct, frozen=True, omit_defaults=True):
    """Program of operations, numbered in order, with gaps where some were added or removed."""

    test: str
    operations: tuple[Any, ...]
    observed: int
    """Answers are compared from the operation with this number on."""
    compared: tuple[int, ...] = ()
    """Operations whose results are shown whole, also where a builtin that hides their order or more takes them."""


class ReferenceFix(msgspec.Struct, frozen=True):
    """A span of a file of the task's image that a right solution replaces."""

    path: str
    start: int
    broken: str
    right: str


class OtherRelease(msgspec.Struct, frozen=True):
    """Another release's version of what the reference changes; the task's tests pass on it."""

    name: str
    fixes: tuple[ReferenceFix, ...]


ReleaseUse = Literal["reference", "fails the tests", "no other text"]
"""Use of another release: a further reference; a version on which some test of the task fails; or nothing, because
it has the changed functions as the reference has them, or not at all."""


class CalledProgram(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function that is judged as a program in some language, which reads requests and writes answers as JSON."""

    language: ProgramLanguage
    function: str
    """`module:name` of the Python reference."""
    parameters: tuple[str, ...]
    """Names of the parameters that take positional arguments, in their order."""
    rest: str = ""
    """Name of `*args`; empty without such a parameter."""


class CallPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Plan for judging a task by calls; stored with the task and read only on the host."""

    programs: tuple[CallProgram, ...]
    imports: tuple[str, ...]
    """Modules that are imported before the calls."""
    roots: tuple[str, ...]
    """Import roots, absolute."""
    inputs: int
    """Fresh inputs that must be compared for a pass."""
    fair_share: float = 1.0
    """Share of drawn inputs that were fair when the plan was made, rounded down."""
    base_share: float = 0.0
    """Share of fair inputs that the unrepaired state, or a partly repaired one, answers differently: a lower confidence
    bound, rounded down."""
    mutants: tuple[int, int] = (0, 0)
    """Number of mutants that failed a draw of `inputs`, and number of mutants."""
    tolerance: float = 0.0
    """Relative tolerance of floats, if the tests have one; otherwise 4 ulp at the answer's magnitude."""
    exceptions: tuple[str, ...] = ()
    """Types of exceptions that the tests expect; inputs on which the reference raises another one are not compared.
    With `program`, names without modules."""
    tests: tuple[str, ...] = ()
    """Deciding tests whose calls distinguish the unrepaired state from the reference."""
    releases: tuple[OtherRelease, ...] = ()
    """Further references: an input that one of them answers differently from the reference is not compared."""
    releases_given: dict[str, ReleaseUse] | None = None
    """Releases that were passed when the plan was made; empty: none, so behaviour that differs between releases may be
    compared; None: the plan's version did not ask for releases."""
    program: CalledProgram | None = None
    """Program in some language that is the worker; each of `programs` is then one call of its function."""


def handles(tree: Any) -> Iterator[int]:
    """Yields the numbers of the operations that a tree refers to."""
    if isinstance(tree, list):
        if len(tree) == 2 and tree[0] == "o" and type(tree[1]) is int:
            yield tree[1]
        else:
            for part in tree:
                yield from handles(part)


class _Slicer:
    """Finds the operations that an operation needs."""

    def __init__(self, operations: Sequence[RecordedOperation]) -> None:
        self._all = {one.n: one for one in operations}
        self._refs = {one.n: set(handles(one.op[2:])) for one in operations}
        self._group: dict[int, int] = {}
        for one in operations:
            owner = next(iter(handles(one.op[2:3])), None)
            derived = one.op[1] in ("attr", "item", "method") and owner is not None
            self._group[one.n] = self._group.get(owner, owner) if derived and owner is not None else one.n

    def slice(self, target: int) -> set[int]:
        """Returns the numbers of the operations before `target` on which its arguments depend, and its own."""
        needed = {target}
        while True:
            groups = {self._group[n] for m in needed for n in self._refs[m] if n in self._group}
            more = {n for m in needed for n in self._refs[m]}
            changing = (one for one in self._all.values() if one.n < target and one.result == "none")
            more |= {one.n for one in changing if {self._group.get(n) for n in self._refs[one.n]} & groups}
            if more <= needed or len(needed) > MAX_OPERATIONS:
                return needed
            needed |= more

    def read_back(self, target: int, needed: set[int]) -> list[int]:
        """Returns the test's later operations on the same objects."""
        groups = {self._group[n] for n in (*self._refs[target], target) if n in self._group}
        found: list[int] = []
        for n in range(target + 1, target + 60):
            one = self._all.get(n)
            if one is None or one.test != self._all[target].test or len(found) >= MAX_READ_BACK:
                break
            related = {self._group.get(ref) for ref in self._refs[n]} & groups
            if related and self._refs[n] <= {*needed, *found}:
                found.append(n)
                groups.add(self._group[n])
        return found


def slice_programs(recordings: Iterable[Recording]) -> tuple[CallProgram, ...]:
    """Returns distinct programs of the operations inside which a target ran, taken from the tests in turns."""
    by_test: dict[str, list[CallProgram]] = {}
    for recording in recordings:
        slicer = _Slicer(recording.operations)
        for one in recording.operations:
            if not one.target or one.test in recording.failed or len(by_test.get(one.test, ())) >= MAX_PER_TEST:
                continue
            needed = slicer.slice(one.n)
            if len(needed) <= MAX_OPERATIONS:
                numbers = sorted(needed) + slicer.read_back(one.n, needed)
                program = _renumbered(recording, one, numbers)
                known = by_test.setdefault(one.test, [])
                if program.operations not in [other.operations for other in known]:
                    known.append(program)
    return tuple(_in_turns(list(by_test.values())))


def _renumbered(recording: Recording, target: RecordedOperation, numbers: list[int]) -> CallProgram:
    by_number = {one.n: one for one in recording.operations}
    new = {old: position for position, old in enumerate(numbers)}
    operations = tuple([new[n], *_moved(by_number[n].op[1:], new)] for n in numbers)
    compared = tuple(new[n] for n in numbers if by_number[n].compared)
    return CallProgram(target.test, operations, new[target.n], compared)


def _moved(tree: Any, new: dict[int, int]) -> Any:
    if not isinstance(tree, list):
        return tree
    if len(tree) == 2 and tree[0] == "o" and type(tree[1]) is int:
        return ["o", new[tree[1]]]
    return [_moved(part, new) for part in tree]


def _in_turns(lists: list[list[CallProgram]]) -> Iterator[CallProgram]:
    seen: list[tuple[Any, ...]] = []
    for position in range(MAX_PER_TEST):
        for programs in lists:
            if position < len(programs) and programs[position].operations not in seen and len(seen) < MAX_PROGRAMS:
                seen.append(programs[position].operations)
                yield programs[position]
