"""A pass that something speaks against is read back as a plain pass from nothing that Assay wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.formats.interface import ExportContext, Format, ImportedTrajectory
from assay.formats.registry import load_formats
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Evidence,
    EvidenceAdded,
    Step,
    StepAdded,
    Trajectory,
    Verdict,
    VerdictAdded,
)
from assay.verdicts import trust_of
from tests.formats.generated import Blobs, assembled, read_all

pytestmark = pytest.mark.quick
WRITING = [one for one in load_formats() if one.writes]


def passed(integrity: str) -> Trajectory:
    """A small attempt with a reward of 1 and a verdict of integrity."""
    started = AttemptStarted("r", "t@0", "t", "blake3:0", "loop", "m", 0, 0, at=1.0)
    bodies = (
        StepAdded(Step(0, "user", "do it")),
        StepAdded(Step(1, "agent", "done")),
        EvidenceAdded(Evidence("e1", "state", "reward", {"values": {"reward": 1.0}})),
        VerdictAdded(Verdict("tests", "outcome", "pass", 1.0, "passed", ("e1",), rewards={"reward": 1.0})),
        VerdictAdded(Verdict("integrity", "integrity", integrity, None, "a reason")),  # type: ignore[arg-type]
        AttemptEnded("done", at=2.0),
    )
    return assembled(ImportedTrajectory("it", started, bodies))


def read_back(one: Format, trajectory: Trajectory, folder: Path) -> list[Trajectory]:
    blobs, target = Blobs(), folder / "out"
    one.write([trajectory], target, ExportContext(blobs.content, lambda _: None))
    whole = target.is_file() or one.recognises(target)
    paths = [target] if whole else sorted(path for path in target.rglob("*") if path.is_file())
    return [assembled(found) for path in paths for found in read_all(one, path, blobs)[0]]


@pytest.mark.parametrize("one", WRITING, ids=lambda one: one.name)
def test_a_doubted_pass_is_no_plain_pass_anywhere(one: Format, tmp_path: Path) -> None:
    assert trust_of(passed("fail")).doubt is not None
    for found in read_back(one, passed("fail"), tmp_path):
        assert found.outcome != "pass" or trust_of(found).doubt is not None


def test_some_formats_hold_the_outcome_of_a_pass_that_nothing_speaks_against(tmp_path: Path) -> None:
    held = set()
    for one in WRITING:
        (tmp_path / one.name).mkdir()
        if any(found.outcome == "pass" for found in read_back(one, passed("pass"), tmp_path / one.name)):
            held.add(one.name)
    assert held >= {"atif", "chat", "harbor", "inspect", "nemo-gym", "tau-bench", "tau2", "verifiers"}
