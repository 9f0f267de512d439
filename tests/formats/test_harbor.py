"""Harbor's job folders: round trips, what a trial's files become, and hostile folders."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.formats.harbor.format import HarborFormat
from assay.formats.interface import ExportContext
from assay.records import EvidenceAdded, Trajectory, Verdict, VerdictAdded
from tests.formats.generated import ROUND_TRIPS, Blobs, assembled, plain, read_all, round_trip, trajectories

JOBS = Path(__file__).parent / "fixtures" / "harbor"


@settings(ROUND_TRIPS, max_examples=ROUND_TRIPS.max_examples // 4)
@given(st.lists(trajectories(), min_size=4, max_size=4))
def test_generated_trajectories_come_back_the_same(given_: list[Trajectory]) -> None:
    round_trip(HarborFormat(), given_, "job")


@pytest.mark.parametrize("job", ["count-lines", "two-steps", "raising"])
def test_a_job_of_harbor_itself_comes_back_the_same(job: str, tmp_path: Path) -> None:
    blobs = Blobs()
    first, unreadable = read_all(HarborFormat(), JOBS / job, blobs)
    HarborFormat().write(map(assembled, first), tmp_path / "job", ExportContext(blobs.content, lambda _: None))
    again, more = read_all(HarborFormat(), tmp_path / "job", blobs)
    assert [plain(assembled(i)) for i in again] == [plain(assembled(i)) for i in first]
    assert not more
    assert len(unreadable) == (job == "raising")


def test_a_trial_is_its_trajectory_its_verifiers_output_and_a_claim() -> None:
    blobs = Blobs()
    (first, _), unreadable = read_all(HarborFormat(), JOBS / "count-lines", blobs)
    trajectory = assembled(first)
    assert not unreadable
    assert (trajectory.agent, trajectory.task) == ("scripted", "example/count-lines")
    assert [len(step.observations) for step in trajectory.steps] == [0, 0, 1, 1, 1]
    assert [(e.kind, e.data.get("total")) for e in trajectory.evidence] == [
        ("reward", None), ("test_report", 1), ("test_output", None), ("reward", None)
    ]  # fmt: skip
    (verdict,) = trajectory.verdicts
    assert (verdict.status, verdict.marks, verdict.evidence) == ("pass", ("imported",), ("i0", "i1", "i2", "i3"))
    assert trajectory.finished is not None
    assert {p: blobs.content(d) for p, d in trajectory.finished.artifacts.items()} == {"/app/answer.txt": b"1\n"}


def test_a_trial_in_steps_is_one_trajectory_whose_turns_name_their_step() -> None:
    ((found,), unreadable) = read_all(HarborFormat(), JOBS / "two-steps", Blobs())
    steps = assembled(found).steps
    assert not unreadable
    assert [s.extra["harbor_step"] for s in steps] == ["first"] * 5 + ["second"] * 5
    sources = [b.evidence.data.get("source") for b in found.bodies if isinstance(b, EvidenceAdded)]
    assert "steps/first/verifier/reward.txt" in sources


def test_an_agent_that_raised_is_no_failure_of_its_own() -> None:
    ((found,), unreadable) = read_all(HarborFormat(), JOBS / "raising", Blobs())
    trajectory = assembled(found)
    assert trajectory.finished is not None
    assert trajectory.finished.broke == "agent"
    assert "ended with 1" in str(trajectory.finished.error)
    assert [u.place for u in unreadable] == ["agent/trajectory.json"]


def test_a_trial_that_was_cut_is_named(tmp_path: Path) -> None:
    job = shutil.copytree(JOBS / "count-lines", tmp_path / "job")
    cut = next(p for p in job.iterdir() if p.is_dir())
    (cut / "result.json").unlink()
    found, (unreadable,) = read_all(HarborFormat(), job, Blobs())
    assert len(found) == 1
    assert unreadable.file == f"job!{cut.name}"
    assert "it was cut" in unreadable.problem


@pytest.mark.parametrize("name", ["artifacts/app/answer.txt", "verifier/test-stdout.txt", "agent/trajectory.json"])
def test_a_link_in_a_trial_is_not_followed(name: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the host's own")
    trial = shutil.copytree(next(p for p in (JOBS / "count-lines").iterdir() if p.is_dir()), tmp_path / "trial")
    (trial / name).unlink()
    (trial / name).symlink_to(secret)
    blobs = Blobs()
    ((found,), unreadable) = read_all(HarborFormat(), trial, blobs)
    assert b"the host's own" not in b"".join([*blobs.held.values(), msgspec.json.encode(found)])
    assert name in [u.place for u in unreadable]


@pytest.mark.parametrize("reward", ["", "nan", "inf", "passed", "1 2", "[1]"])
def test_a_reward_that_is_no_number_is_named_and_no_pass(reward: str, tmp_path: Path) -> None:
    trial = shutil.copytree(next(p for p in (JOBS / "count-lines").iterdir() if p.is_dir()), tmp_path / "trial")
    (trial / "verifier" / "reward.txt").write_text(reward)
    result = msgspec.json.decode((trial / "result.json").read_bytes())
    (trial / "result.json").write_bytes(msgspec.json.encode({**result, "verifier_result": None}))
    ((found,), unreadable) = read_all(HarborFormat(), trial, Blobs())
    assert assembled(found).outcome == "unknown"
    assert [u.place for u in unreadable] == ["verifier/reward.txt"]


def test_a_pass_without_integrity_is_exported_as_no_plain_pass(tmp_path: Path) -> None:
    blobs = Blobs()
    (first, _), _ = read_all(HarborFormat(), JOBS / "count-lines", blobs)
    doubt = VerdictAdded(Verdict("audit", "integrity", "fail", None, "read the tests"))
    found = assembled(msgspec.structs.replace(first, bodies=(*first.bodies, doubt)))
    HarborFormat().write([found], tmp_path / "job", ExportContext(blobs.content, lambda _: None))
    ((again,), _) = read_all(HarborFormat(), tmp_path / "job", blobs)
    assert assembled(again).outcome == "unknown"
    (trial,) = (p for p in (tmp_path / "job").iterdir() if p.is_dir())
    assert msgspec.json.decode((trial / "result.json").read_bytes())["verifier_result"]["rewards"]["integrity"] == 0
