"""Judges units of the work of making tasks: here, or on another machine with the source, code and configuration.

A unit is judged alike wherever and beside whichever others: each run has files and a hash seed of its own, and the
tests were measured once, by the one that plans.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from assay.environments.interface import Backend
from assay.errors import UserError

from ._call_traces import trace_unit
from ._candidates import TaskCandidate
from ._gates import GateContext, GateOutcome, judge_candidates
from ._opening import OpenedSource, open_source
from ._own_check import OwnCheck
from ._program_judging import ProgramJudge
from ._progress import Progress, ignore_progress
from ._separation_gate import SeparationGate
from ._units import (
    UNIT_TYPES,
    JudgeElsewhere,
    JudgeUnit,
    JudgingBasis,
    Outcome,
    ProgramsBasis,
    Unit,
    WorkKind,
    is_of_unit,
    require_inside,
)
from .config import SynthesisConfig

__all__ = [
    "UNIT_TYPES",
    "GateOutcome",
    "JudgeElsewhere",
    "JudgeUnit",
    "JudgingBasis",
    "Outcome",
    "TaskCandidate",
    "Unit",
    "is_of_unit",
    "make_judge",
    "open_gates",
    "open_judge",
    "require_inside",
]


def make_judge(
    source: OpenedSource,
    config: SynthesisConfig,
    kind: WorkKind,
    elsewhere: JudgeElsewhere | None,
    tell: Progress,
    programs: ProgramsBasis | None = None,
) -> Callable[[Sequence[Unit]], Awaitable[list[Any]]]:
    """Returns what judges functions of an open source: `elsewhere`, else here, in so many sandboxes at once as the
    configuration says. The outcomes are in the order of the units."""
    basis = JudgingBasis(source.folder.name, config, source.reference, kind, programs)
    if elsewhere is not None:
        return partial(_judge_elsewhere, elsewhere, basis, tell)
    judge, slots = _judge_of_functions(source, basis), asyncio.Semaphore(config.concurrency)

    async def judge_all(units: Sequence[Unit]) -> list[Any]:
        done = iter(range(1, len(units) + 1))

        async def take(unit: Unit) -> Outcome:
            async with slots:
                outcome = await judge(unit)
            tell("judging", next(done), len(units))
            return outcome

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(take(one)) for one in units]
        return [task.result() for task in tasks]

    return judge_all


async def _judge_elsewhere(
    elsewhere: JudgeElsewhere, basis: JudgingBasis, tell: Progress, units: Sequence[Unit]
) -> list[Any]:
    return await elsewhere(basis, units, tell) if units else []


def _judge_of_functions(source: OpenedSource, basis: JudgingBasis) -> JudgeUnit:
    if basis.kind == "questions":
        return partial(trace_unit, source)
    if basis.programs is None:
        raise UserError("the work names no language")
    return ProgramJudge(source, basis.config, basis.programs).judge


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
async def open_judge(basis: JudgingBasis, *, slots: int, backend: Backend, cache: Path) -> AsyncIterator[JudgeUnit]:
    """Opens the source of a basis here, with so many sandboxes, and yields what judges one unit.

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
        if basis.kind != "candidates":
            yield _judge_of_functions(source, basis)
            return
        async with open_gates(source, config, ignore_progress) as context:

            async def judge(one: TaskCandidate) -> GateOutcome:
                (outcome,) = await judge_candidates(context, [one], source.laboratory)
                return outcome

            yield judge
