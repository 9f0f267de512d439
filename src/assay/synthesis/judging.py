"""Judges candidates of a source, here or on another machine that has the source, the code and the configuration.

A candidate is judged alike wherever and beside whichever others: each run of its tests has files and a hash seed of its
own, and the tests were measured once, by the one that plans.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from assay.environments.interface import Backend
from assay.errors import UserError

from ._archive import require_safe_name
from ._candidates import TaskCandidate
from ._gates import GateContext, GateOutcome, judge_candidates
from ._opening import OpenedSource, open_source
from ._own_check import OwnCheck
from ._progress import Progress, ignore_progress
from ._reference import Reference
from ._separation_gate import SeparationGate
from .config import SynthesisConfig

__all__ = [
    "GateOutcome",
    "JudgeCandidate",
    "JudgeElsewhere",
    "JudgingBasis",
    "TaskCandidate",
    "open_candidate_judge",
    "open_gates",
    "require_inside",
]


class JudgingBasis(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Measures that candidates are judged by."""

    key: str
    """Digest of source, tool layer, configuration and code."""
    config: SynthesisConfig
    reference: Reference
    """The tests of the unbroken tree, as they were measured."""


def require_inside(one: TaskCandidate) -> TaskCandidate:
    """Returns a candidate that was read from elsewhere. Raises `UserError` if its digest or a path could lead out of
    the folders that they name on this machine."""
    if not re.fullmatch(r"[0-9a-f]{16}", one.digest):
        raise UserError(f"the candidate's digest is {one.digest[:100]!r}, and not 16 hexadecimal digits")
    for path in (*one.changes, *one.base):
        require_safe_name(path, "the candidate")
    return one


JudgeElsewhere = Callable[[JudgingBasis, Sequence[TaskCandidate], Progress], Awaitable[list[GateOutcome]]]
"""Judges candidates in other processes, and returns the outcome of each, in order."""
JudgeCandidate = Callable[[TaskCandidate], Awaitable[GateOutcome]]


@asynccontextmanager
async def open_gates(source: OpenedSource, config: SynthesisConfig, tell: Progress) -> AsyncIterator[GateContext]:
    """Yields what the gates need to judge candidates of an open source."""
    tree, laboratory, reference = source.tree, source.laboratory, source.reference
    async with OwnCheck(tree, reference.cases, laboratory, config.concurrency) as own_check:
        separation = None
        if config.separation != "off":
            separation = SeparationGate(tree, reference.cases, laboratory, config.separation_mutants, source.releases)
        yield GateContext(tree.files, reference.passing, config, own_check.find_objection, separation, tell)


@asynccontextmanager
async def open_candidate_judge(
    basis: JudgingBasis, *, slots: int, backend: Backend, cache: Path
) -> AsyncIterator[JudgeCandidate]:
    """Opens the source of a basis here, with so many sandboxes, and yields what judges one candidate.

    Raises:
        UserError: The source, its tool layer or this version of the code is another one.
        EnvironmentFailure: The sandbox broke.
    """
    config = msgspec.structs.replace(basis.config, concurrency=slots)
    async with open_source(config, backend, cache, ignore_progress, basis.reference) as source:
        if source.folder.name != basis.key:
            raise UserError(
                f"{config.source} on this machine is another source, has another tool layer, or is judged by another "
                "version of Assay: make them alike"
            )
        async with open_gates(source, config, ignore_progress) as context:

            async def judge(one: TaskCandidate) -> GateOutcome:
                (outcome,) = await judge_candidates(context, [one], source.laboratory)
                return outcome

            yield judge
