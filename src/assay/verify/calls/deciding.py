"""Judges the tests of a separation plan whose method is calls on fresh inputs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.errors import TaskError
from assay.records import Separation
from assay.verify._ruling import Ruling
from assay.verify.cited_evidence import CitedEvidence
from assay.verify.interface import CheckInput
from assay.verify.separation import cite_separation
from assay.verify.separation_plan import SeparationPlan

from .judge import judge_by_calls
from .programs import CallPlan, ReferenceFix
from .reference import read_fixes


class ReferenceFiles(NamedTuple):
    fixes: tuple[ReferenceFix, ...]
    package: Path | None = None
    """Host folder with its files, if they are not in the task's image."""


class CalledTests(NamedTuple):
    ruling: Ruling
    grade: Separation


def call_plans(separation: SeparationPlan | None) -> tuple[CallPlan, ...]:
    """Returns the call plans that a separation plan stores. Raises `TaskError` if one is malformed."""
    try:
        return msgspec.convert(separation.calls if separation else (), tuple[CallPlan, ...])
    except msgspec.ValidationError as exc:
        raise TaskError(f"the separation plan's calls: {exc}") from exc


async def judge_called_tests(
    given: CheckInput, plan: CallPlan, cited: CitedEvidence, reference: ReferenceFiles | None = None
) -> CalledTests:
    """Judges the final state by one call plan and cites the questions and answers.

    The reference is the task's own fix of its image, or the given files. The seed is `given.seed` when a verdict is
    repeated, otherwise drawn from the operating system.

    Raises:
        EnvironmentFailure: A sandbox failed.
        TaskError: The task's folder has no reference, or the reference does not fit the image.
    """
    if reference is None:
        reference = ReferenceFiles(await asyncio.to_thread(read_fixes, given.folder))
    result = await judge_by_calls(
        given.backend,
        given.spec,
        given.state,
        plan,
        reference.fixes,
        seed=given.seed,
        package=reference.package,
        patience=given.patience,
    )
    cited.add("audit", "calls", result.data)
    grade = cite_separation(cited, result.reference, [result.worker], image=given.spec.image.digest)
    score = {"pass": 1.0, "fail": 0.0}.get(result.status)
    return CalledTests(Ruling(result.status, score, result.reason, result.marks), grade)
