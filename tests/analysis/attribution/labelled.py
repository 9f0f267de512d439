"""Labelled runs, read by the project's own importers, in two halves.

The split is by the digest of the task's id, stated before anything was set: an even digest is the development half, on
which the signs, their words and weights were set; an odd one is the test half, which was looked at once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assay.analysis.actors import who
from assay.formats.benchmarks.agentrx import AgentRxFormat
from assay.formats.benchmarks.who_and_when import WhoAndWhenFormat
from assay.formats.interface import Format, ImportContext, ImportedTrajectory
from assay.records import AttemptEnded, EvidenceAdded, StepAdded, Trajectory, VerdictAdded, digest_bytes
from tests.analysis.trajectories import trajectory

DATA = Path(__file__).parents[4] / "shared" / "data"


class Run(NamedTuple):
    trajectory: Trajectory
    label: dict[str, Any]
    development: bool
    passed: bool = False

    def by(self) -> list[tuple[int, str]]:
        return [(s.index, who(s)) for s in self.trajectory.steps if s.actor in ("agent", "other_agent")]


def is_development(task: str) -> bool:
    return int(digest_bytes(task.encode()).removeprefix("blake3:"), 16) % 2 == 0


def read(form: Format, path: Path) -> Iterator[Run]:
    for found in form.read(path, ImportContext(lambda data: digest_bytes(data), lambda _: None)):
        yield _run(found)


def _run(found: ImportedTrajectory) -> Run:
    steps = [body.step for body in found.bodies if isinstance(body, StepAdded)]
    evidence = [body.evidence for body in found.bodies if isinstance(body, EvidenceAdded)]
    ended = any(isinstance(body, AttemptEnded) for body in found.bodies)
    labels = [one.data for one in evidence if one.kind == "label"]
    made = trajectory(steps, evidence=evidence, ended=ended, outcome="fail")
    passed = any(isinstance(body, VerdictAdded) and body.verdict.status == "pass" for body in found.bodies)
    return Run(made, labels[0] if labels else {}, is_development(found.started.task), passed)


def who_and_when() -> list[Run]:
    folder = DATA / "who-and-when" / "algorithm-generated"
    if not folder.is_dir():
        pytest.skip(f"the shared data are not here: {folder}")
    return [run for path in sorted(folder.glob("*.json")) for run in read(WhoAndWhenFormat(), path)]


def agentrx() -> list[Run]:
    path = DATA / "agentrx" / "tau_dataset_failed.json"
    if not path.is_file():
        pytest.skip(f"the shared data are not here: {path}")
    return [run for run in read(AgentRxFormat(), path) if run.label.get("failures")]
