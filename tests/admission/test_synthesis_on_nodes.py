"""Candidates of `assay synth repository` on nodes, as real processes: the tasks of one machine, whatever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.admission.synthesis_on_nodes import BASIS, _decode, _name_work, _publish_candidate, _read_candidate
from assay.errors import StoreError
from assay.rollout.cluster.commits import TrialRecord, head_of, new_token, pack_trial
from assay.rollout.cluster.work_parts import publish_part
from assay.settings import Settings
from assay.synthesis._reference import Reference
from assay.synthesis.config import SynthesisConfig
from assay.synthesis.judging import GateOutcome, JudgingBasis, TaskCandidate
from tests.optional import require_packages
from tests.store.objects.simulated import SimulatedStore
from tests.synthesis.conftest import write_sdist

require_packages("obstore")
PROGRAM = "import sys; from assay.cli import main; sys.argv[0] = 'assay'; main()"
WORDS = ("--count", "2", "--candidates", "4", "--repetitions", "1", "--separation", "off", "--concurrency", "1")


Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a synthesis with a cache of its own, which has the tool layers of this machine; it is killed at the end of
    the test."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(source: Path, name: str, *more: str) -> subprocess.Popen[bytes]:
        cache = tmp_path / f"cache-{name}"
        if not cache.exists():
            cache.mkdir()
            (cache / "tools").symlink_to(Settings.from_environment().cache / "tools")
        words = ["synth", "repository", str(source), "--out", name, *WORDS, *more]
        env = {**os.environ, "ASSAY_CACHE": str(cache), "ASSAY_STORE": str(tmp_path / "store")}
        with (tmp_path / f"{name}.log").open("ab") as log:
            command = [sys.executable, "-c", PROGRAM, *words]
            started.append(subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, env=env))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait()


def _wait_for(folder: Path, pattern: str, command: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 300
    while not any(folder.glob(pattern)):
        assert command.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)


def _files(folder: Path) -> dict[str, bytes]:
    """Returns the files of a set of tasks, without what it cost and how it was called."""
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if not name.startswith("synthesis-")}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_nodes_judge_candidates_as_one_machine_though_one_and_the_command_are_killed(
    start: Start, tmp_path: Path
) -> None:
    source = write_sdist(tmp_path)
    assert start(source, "one").wait(400) == 0, (tmp_path / "one.log").read_text()
    command = start(source, "many", "--nodes", "2")
    work = "store/objects/runs/synth-*"
    _wait_for(tmp_path, f"{work}/agents/local-0*", command)
    nodes = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
    os.kill(int(nodes[0]), signal.SIGKILL)
    _wait_for(tmp_path, f"{work}/finals/*/*", command)
    command.kill()
    command.wait()
    assert start(source, "many", "--nodes", "2").wait(400) == 0, (tmp_path / "many.log").read_text()
    assert len(_files(tmp_path / "one")) > 4
    assert _files(tmp_path / "many") == _files(tmp_path / "one")
    parts = [path.stem for path in tmp_path.glob(f"{work}/parts/*.json")]
    assert BASIS in parts
    assert set(parts) - {BASIS} == {path.name for path in tmp_path.glob(f"{work}/finals/*/*")}


ONE = TaskCandidate("a" * 16, "operator", {}, (), (), (), ())


def _record(*events: bytes) -> TrialRecord:
    body = pack_trial(ONE.digest, 0, head_of(ONE.digest, events), events, None)
    return TrialRecord(1, "synth-x", ONE.digest, new_token(), "final", body)


def test_an_outcome_that_was_changed_is_refused() -> None:
    good = msgspec.json.encode(GateOutcome(ONE.digest, "kept"))
    assert _decode(_record(good), ONE).gate == "kept"
    with pytest.raises(StoreError, match="of another candidate"):
        _decode(_record(msgspec.json.encode(GateOutcome("b" * 16, "kept"))), ONE)
    with pytest.raises(StoreError, match="of another candidate"):
        _decode(_record(msgspec.json.encode(GateOutcome(ONE.digest, "kept", passing=("../up.py::a",)))), ONE)
    for events in ((), (good, good), (b"{",), (b'{"digest": "a", "gate": 1}',)):
        with pytest.raises(StoreError, match="is damaged"):
            _decode(_record(*events), ONE)


def _basis(passing: dict[str, float]) -> JudgingBasis:
    cases: dict[str, tuple[str, ...]] = {test: (test,) for test in passing}
    return JudgingBasis("k", SynthesisConfig(source="s.tar.gz", out="out"), Reference(passing, cases, {}, {}))


def test_commands_that_measured_other_tests_share_no_work_whatever_the_tests_cost() -> None:
    assert _name_work(_basis({"a": 1.0, "b": 2.0})) == _name_work(_basis({"b": 3.0, "a": 1.5}))
    assert _name_work(_basis({"a": 1.0})) != _name_work(_basis({"a": 1.0, "b": 2.0}))


async def test_a_candidate_that_is_in_the_place_with_other_tests_is_refused() -> None:
    place = SimulatedStore()
    one = msgspec.structs.replace(ONE, tests=("a",), passing={"a": 1.0})
    await _publish_candidate(place, "synth-x", one)
    await _publish_candidate(place, "synth-x", msgspec.structs.replace(one, passing={"a": 2.0}))
    with pytest.raises(StoreError, match="is not what this command publishes"):
        await _publish_candidate(place, "synth-x", msgspec.structs.replace(one, tests=("a", "b")))


@pytest.mark.parametrize(
    "changed",
    [
        {"digest": "../../../../home/user"},
        {"digest": "/home/user"},
        {"base": {"../../../up": "x"}},
        {"base": {"/home/user/.profile": None}},
        {"changes": {"src/../../up.py": "x"}},
    ],
)
async def test_a_node_refuses_a_candidate_that_leads_out_of_its_folders(changed: dict[str, Any]) -> None:
    place = SimulatedStore()
    one = msgspec.convert(msgspec.to_builtins(ONE) | changed, TaskCandidate)
    await _publish_candidate(place, "synth-x", one)
    with pytest.raises(StoreError, match="is refused"):
        await _read_candidate(place, "synth-x", one.digest)


async def test_a_node_refuses_a_candidate_that_was_moved() -> None:
    place = SimulatedStore()
    await publish_part(place, "synth-x", "b" * 16, msgspec.json.encode(ONE))
    with pytest.raises(StoreError, match="it was moved"):
        await _read_candidate(place, "synth-x", "b" * 16)
