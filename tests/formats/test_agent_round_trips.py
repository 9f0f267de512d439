"""What agents' formats write is read back the same: real files exactly, made-up trajectories but for what is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import UserError
from assay.formats.interface import ExportContext, Format, ImportedTrajectory, Loss
from assay.formats.shared.round_trip import diff_json, patch_json
from assay.records import Trajectory, Verdict, VerdictAdded, canonical_bytes
from tests.formats.agents import ALL, READ_ONLY, SESSIONS, TWO_WAY, comes_back, imported
from tests.formats.generated import ROUND_TRIPS, Blobs, assembled, read_all, round_trip, trajectories

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(0, 1) | st.sampled_from(["", "a", "-", "="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab-="), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.long
@settings(max_examples=200)
@given(JSON, JSON)
def test_a_rest_laid_over_gives_the_item_back(item: object, fresh: object) -> None:
    assert canonical_bytes(patch_json(fresh, diff_json(item, fresh))) == canonical_bytes(item)


@pytest.mark.parametrize("name", sorted(TWO_WAY))
@ROUND_TRIPS
@given(trajectory=trajectories())
def test_a_generated_trajectory_comes_back_the_same(name: str, trajectory: Trajectory) -> None:
    format, ending = TWO_WAY[name]
    round_trip(format, [trajectory], ending)


@pytest.mark.parametrize("name", sorted(TWO_WAY))
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(several=st.lists(trajectories(), min_size=2, max_size=3))
def test_several_trajectories_come_back_the_same(name: str, several: list[Trajectory]) -> None:
    format, ending = TWO_WAY[name]
    named = [msgspec.structs.replace(one, attempt=f"a{i}") for i, one in enumerate(several)]
    round_trip(format, named, ending)


@pytest.mark.parametrize("name", ["swe-agent", "swe-smith"])
def test_every_swe_agent_file_comes_back_the_same(name: str, shared_data: Path, tmp_path: Path) -> None:
    files = sorted((shared_data / name).rglob("*.traj"))
    assert len(files) == {"swe-agent": 22, "swe-smith": 3}[name]
    for position, path in enumerate(files):
        (tmp_path / str(position)).mkdir()
        comes_back(ALL["swe-agent"], path, tmp_path / str(position))


def test_every_tau_bench_run_comes_back_the_same(shared_data: Path, tmp_path: Path) -> None:
    (path,) = (shared_data / "tau-bench").glob("*.json")
    assert len(comes_back(ALL["tau-bench"], path, tmp_path)) == 100


def test_runs_of_one_format_survive_a_journey_through_another(shared_data: Path, tmp_path: Path) -> None:
    (path,) = (shared_data / "tau-bench").glob("*.json")
    runs = [assembled(one) for one in imported(ALL["tau-bench"], path)[0][:5]]
    round_trip(ALL["tau2"], runs, ".json", Blobs())


SESSION_FILES = [
    *((name, path) for name in ("codex", "claude-code", "pi") for path in sorted(SESSIONS.glob(f"{name}*/*.jsonl"))),
    *(("mini-swe-agent", path) for path in sorted(SESSIONS.glob("mini*/*.json"))),
    ("openhands", SESSIONS / "openhands"),
]


@pytest.mark.parametrize(("name", "path"), SESSION_FILES, ids=lambda value: getattr(value, "name", value))
def test_every_session_file_comes_back_the_same(name: str, path: Path, tmp_path: Path) -> None:
    comes_back(ALL[name], path, tmp_path)


@pytest.mark.parametrize(("name", "path"), SESSION_FILES[:-1], ids=lambda value: getattr(value, "name", value))
def test_a_session_is_written_as_the_same_json(name: str, path: Path, tmp_path: Path) -> None:
    assert _written(name, path, tmp_path) == _json(path)


@pytest.mark.long
def test_shared_runs_are_written_as_the_same_json(shared_data: Path, tmp_path: Path) -> None:
    files = [("tau-bench", path) for path in (shared_data / "tau-bench").glob("*.json")]
    files += [
        ("swe-agent", path) for name in ("swe-agent", "swe-smith") for path in (shared_data / name).rglob("*.traj")
    ]
    assert len(files) == 26
    for position, (name, path) in enumerate(files):
        (tmp_path / str(position)).mkdir()
        assert _written(name, path, tmp_path / str(position)) == _json(path)


def _json(path: Path) -> Any:
    data = path.read_bytes()
    try:
        return json.loads(data)
    except ValueError:
        return [json.loads(line) for line in data.splitlines() if line.strip()]


def _written(name: str, path: Path, scratch: Path) -> Any:
    """What is written of a file; the name that some formats add to keep an attempt's task is taken out again."""
    format, ending = TWO_WAY[name]
    blobs, target = Blobs(), scratch / f"out{ending}"
    format.write(
        [assembled(one) for one in read_all(format, path, blobs)[0]], target, ExportContext(blobs.content, print)
    )
    found = _json(target)
    if isinstance(found, dict):
        found.pop("instance_id", None)
    return found


@pytest.mark.parametrize("name", sorted(READ_ONLY))
def test_a_format_that_only_reads_says_so(name: str, tmp_path: Path) -> None:
    format = READ_ONLY[name]
    assert not format.writes
    with pytest.raises(UserError, match=r"read|export"):
        format.write([], tmp_path / "x", ExportContext(lambda _: b"", lambda _: None))


def test_a_pass_without_integrity_is_told(shared_data: Path, tmp_path: Path) -> None:
    (path,) = (shared_data / "tau-bench").glob("*.json")
    runs = imported(ALL["tau-bench"], path)[0]
    passed = next(one for one in runs if assembled(one).outcome == "pass")
    later = VerdictAdded(Verdict("audit", "integrity", "fail", None, "the tests were edited"))
    told = ImportedTrajectory(passed.key, passed.started, (*passed.bodies, later))
    losses: list[Loss] = []
    format: Format = ALL["tau-bench"]
    format.write([assembled(told)], tmp_path / "out.json", ExportContext(lambda _: b"", losses.append))
    assert {loss.field for loss in losses} == {"integrity", "verdicts"}
