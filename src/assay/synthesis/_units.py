"""Units of the work of making tasks, as plain data: what one machine, or a node with the same source, judges at a time.

A unit names functions and calls; the source that it is about is on every machine. The basis says which unit and which
outcome belong together.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from assay.code.source import SourceError, parse_tree
from assay.errors import UserError
from assay.records import DIGEST_PREFIX, digest_bytes
from assay.verify.calls import CallPlan, CallProgram, ProgramLanguage

from ._archive import require_safe_name
from ._candidates import TaskCandidate
from ._gates import GateOutcome
from ._plain_calls import PlainFunction
from ._progress import Progress
from ._reference import Reference
from ._tree import SourceTree
from .config import SynthesisConfig

WorkKind = Literal["candidates", "programs", "questions"]


class CalledFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A `PlainFunction` without its source."""

    path: str
    module: str
    name: str
    calls: tuple[CallProgram, ...]
    exceptions: tuple[str, ...]


class ProgramUnit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A function that may become a task to write it in another language."""

    digest: str
    function: CalledFunction
    solution: str
    """A program in the language; empty for a task without a solution."""
    bridged: bool
    """The solution starts the reference."""


class ProgramOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The gate at which a function ended."""

    digest: str
    gate: str
    """A key of `program_tasks.GATES`, or `kept`."""
    reason: str = ""
    plan: CallPlan | None = None
    """Of a kept function."""
    examples: tuple[tuple[str, str], ...] = ()
    """Requests with their answers, to be shown."""


class TraceUnit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Functions whose calls are traced in one sandbox."""

    digest: str
    functions: tuple[CalledFunction, ...]


class TraceOutcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Output of the tracer, once for each hash seed."""

    digest: str
    replies: tuple[str, ...]


class ProgramsBasis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options that functions are judged by as programs."""

    language: ProgramLanguage
    label: str
    mutants: int


class JudgingBasis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Measures that units are judged by."""

    key: str
    """Digest of source, tool layer, configuration and code."""
    config: SynthesisConfig
    reference: Reference
    """The tests of the unbroken tree, as they were measured."""
    kind: WorkKind = "candidates"
    programs: ProgramsBasis | None = None
    """For the kind `programs`."""


Unit = TaskCandidate | ProgramUnit | TraceUnit
Outcome = GateOutcome | ProgramOutcome | TraceOutcome


class UnitTypes(NamedTuple):
    """The records of one kind of work."""

    unit: type[Unit]
    outcome: type[Outcome]


UNIT_TYPES: dict[WorkKind, UnitTypes] = {
    "candidates": UnitTypes(TaskCandidate, GateOutcome),
    "programs": UnitTypes(ProgramUnit, ProgramOutcome),
    "questions": UnitTypes(TraceUnit, TraceOutcome),
}
JudgeElsewhere = Callable[[JudgingBasis, Sequence[Unit], Progress], Awaitable[list[Any]]]
"""Judges units in other processes, and returns the outcome of each, in order, as the kind of the basis has it."""
JudgeUnit = Callable[[Any], Awaitable[Outcome]]
"""Judges one unit of the kind of a basis."""


def unit_digest(*parts: object) -> str:
    """Returns the digest of a unit that is made of plain data."""
    return digest_bytes(msgspec.json.encode(parts))[len(DIGEST_PREFIX) :][:16]


def describe_function(one: PlainFunction, most_calls: int | None = None) -> CalledFunction:
    """Returns a function as plain data, with at most so many of its calls."""
    return CalledFunction(one.path, one.module, one.name, one.calls[:most_calls], one.exceptions)


def find_function(tree: SourceTree, one: CalledFunction) -> PlainFunction:
    """Returns a function of a tree. Raises `UserError` if the tree has none of that path and name."""
    try:
        text = tree.files[one.path].decode()
        nodes = {node.name: node for node in parse_tree(text).body if isinstance(node, ast.FunctionDef)}
        return PlainFunction(one.path, one.module, nodes[one.name], text, one.calls, one.exceptions)
    except (KeyError, UnicodeDecodeError, SourceError):
        raise UserError(f"the source has no function {one.path}::{one.name}") from None


def require_inside(one: Unit) -> None:
    """Raises `UserError` if the digest or a path of a unit that was read from elsewhere could lead out of the folders
    that they name on this machine."""
    if not re.fullmatch(r"[0-9a-f]{16}", one.digest):
        raise UserError(f"the candidate's digest is {one.digest[:100]!r}, and not 16 hexadecimal digits")
    paths: list[str] = []
    if isinstance(one, TaskCandidate):
        paths = [*one.changes, *one.base]
    elif isinstance(one, ProgramUnit):
        paths = [one.function.path]
    else:
        paths = [function.path for function in one.functions]
    for path in paths:
        require_safe_name(path, "the candidate")


def is_of_unit(outcome: Outcome, one: Unit) -> bool:
    """Returns whether an outcome that was read from elsewhere can be that of a unit."""
    if outcome.digest != one.digest:
        return False
    if isinstance(outcome, GateOutcome):
        return isinstance(one, TaskCandidate) and {*outcome.flipped, *outcome.passing} <= set(one.tests)
    if isinstance(outcome, TraceOutcome):
        return len(outcome.replies) == 2
    if outcome.plan is None or outcome.plan.program is None or not isinstance(one, ProgramUnit):
        return outcome.gate != "kept" and outcome.plan is None
    function = f"{one.function.module}:{one.function.name}"
    return outcome.gate == "kept" and outcome.plan.program.function == function
