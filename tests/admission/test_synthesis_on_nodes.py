"""`assay synth repository`, `programs` and `questions` on nodes: the tasks of one machine, whatever is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.admission.synthesis_on_nodes import BASIS, _Counted, _decode, _name_work, _plan, _publish_unit, _read_unit
from assay.errors import StoreError
from assay.rollout.attempt.trial import TrialResult
from assay.rollout.cluster.commits import TrialRecord, head_of, new_token, pack_trial
from assay.rollout.cluster.work_parts import publish_part
from assay.rollout.progress import Tally
from assay.settings import Settings
from assay.synthesis import FROM_JOURNAL
from assay.synthesis._reference import Reference
from assay.synthesis._units import CalledFunction, ProgramOutcome, ProgramUnit, TraceOutcome, TraceUnit
from assay.synthesis.config import SynthesisConfig
from assay.synthesis.judging import GateOutcome, JudgingBasis, TaskCandidate
from tests.optional import require_packages
from tests.processes import Start, assay_processes
from tests.store.objects.simulated import SimulatedStore
from tests.synthesis.conftest import write_sdist

require_packages("obstore")
WORDS = {
    "repository": ("--count", "2", "--candidates", "4", "--repetitions", "1", "--separation", "off"),
    "programs": ("--count", "2", "--language", "perl", "--mutants", "3"),
    "questions": ("--count", "9", "--per-function", "1"),
}
FUNCTION = '''
def clamp_{number}(value, low=0, high=10):
    """Returns the value and {number}, or the nearest bound."""
    moved = value + {number}
    if moved < low:
        return low
    if moved > high:
        return high
    return moved
'''
TEST = """
def test_clamp_{number}():
    assert clamp_{number}(4) == min(4 + {number}, 10)
    assert clamp_{number}(-90, 3) == 3
    assert clamp_{number}(2, 0, 90) == 2 + {number}
"""
FUNCTIONS = 18
"""More than are traced in one sandbox."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a synthesis with a cache of its own, which has the tool layers of this machine; it is killed at the end of
    the test."""
    with assay_processes(tmp_path) as begin:

        def synthesise(verb: str, source: Path, name: str, *more: str) -> subprocess.Popen[bytes]:
            cache = tmp_path / f"cache-{name}"
            if not cache.exists():
                cache.mkdir()
                (cache / "tools").symlink_to(Settings.from_environment().cache / "tools")
            words = ["synth", verb, str(source), "--out", name, "--concurrency", "1", *WORDS[verb], *more]
            return begin(name, words, ASSAY_CACHE=str(cache), ASSAY_STORE=str(tmp_path / "store"))

        yield synthesise


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


def _write_functions(folder: Path) -> Path:
    """Writes a package of many functions, with tests that call them."""
    numbers, names = range(FUNCTIONS), ", ".join(f"clamp_{number}" for number in range(FUNCTIONS))
    tests = [TEST.format(number=number) for number in numbers]
    files = {
        "clamps/__init__.py": "".join(FUNCTION.format(number=number) for number in numbers),
        "tests/test_clamps.py": "\n".join((f"from clamps import {names}", *tests)),
    }
    for name, text in files.items():
        path = folder / "clamps-1.0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "clamps-1.0"


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("verb", ["repository", "programs", "questions"])
def test_nodes_judge_as_one_machine_though_one_and_the_command_are_killed(
    start: Start, tmp_path: Path, verb: str
) -> None:
    source = write_sdist(tmp_path) if verb == "repository" else _write_functions(tmp_path)
    assert start(verb, source, "one").wait(400) == 0, (tmp_path / "one.log").read_text()
    command = start(verb, source, "many", "--nodes", "2")
    work = "store/objects/runs/synth-*"
    _wait_for(tmp_path, f"{work}/agents/local-0*", command)
    nodes = Path(f"/proc/{command.pid}/task/{command.pid}/children").read_text().split()
    os.kill(int(nodes[0]), signal.SIGKILL)
    _wait_for(tmp_path, f"{work}/finals/*/*", command)
    command.kill()
    command.wait()
    assert start(verb, source, "many", "--nodes", "2").wait(400) == 0, (tmp_path / "many.log").read_text()
    assert FROM_JOURNAL in (tmp_path / "many.log").read_text()  # so no yield: what the killed command used is unknown
    assert len(_files(tmp_path / "one")) > 4
    assert _files(tmp_path / "many") == _files(tmp_path / "one")
    parts = [path.stem for path in tmp_path.glob(f"{work}/parts/*.json")]
    assert BASIS in parts
    assert set(parts) - {BASIS} == {path.name for path in tmp_path.glob(f"{work}/finals/*/*")}


ONE = TaskCandidate("a" * 16, "operator", {}, (), (), (), ())
BASIS_OF_CANDIDATES = JudgingBasis("k", SynthesisConfig(source="s", out="out"), Reference({}, {}, {}, {}))


def _record(*events: bytes) -> TrialRecord:
    body = pack_trial(ONE.digest, 0, head_of(ONE.digest, events), events, None)
    return TrialRecord(1, "synth-x", ONE.digest, new_token(), "final", body)


def test_an_outcome_that_was_changed_is_refused() -> None:
    good = msgspec.json.encode(GateOutcome(ONE.digest, "kept"))
    assert _decode(_record(good), ONE, BASIS_OF_CANDIDATES) == GateOutcome(ONE.digest, "kept")
    for other in (GateOutcome("b" * 16, "kept"), GateOutcome(ONE.digest, "kept", passing=("../up.py::a",))):
        with pytest.raises(StoreError, match="of another candidate"):
            _decode(_record(msgspec.json.encode(other)), ONE, BASIS_OF_CANDIDATES)
    for events in ((), (good, good), (b"{",), (b'{"digest": "a", "gate": 1}',)):
        with pytest.raises(StoreError, match="is damaged"):
            _decode(_record(*events), ONE, BASIS_OF_CANDIDATES)


def test_what_was_judged_before_is_counted_as_an_earlier_run() -> None:
    told: list[tuple[str, int, int]] = []
    counted = _Counted(Tally(), lambda *words: told.append(words), 3)
    counted.begin(total=3, done=2)
    counted.finished(_plan(ONE, BASIS_OF_CANDIDATES), TrialResult("pass", None, None, None, None, None, {}))
    _Counted(Tally(), lambda *words: told.append(words), 3).begin(total=3, done=0)
    assert told == [(FROM_JOURNAL, 2, 3), ("judging on nodes", 3, 3)]


def _basis(passing: dict[str, float]) -> JudgingBasis:
    cases: dict[str, tuple[str, ...]] = {test: (test,) for test in passing}
    return JudgingBasis("k", SynthesisConfig(source="s.tar.gz", out="out"), Reference(passing, cases, {}, {}))


def test_commands_that_measured_other_tests_share_no_work_whatever_the_tests_cost() -> None:
    assert _name_work(_basis({"a": 1.0, "b": 2.0})) == _name_work(_basis({"b": 3.0, "a": 1.5}))
    assert _name_work(_basis({"a": 1.0})) != _name_work(_basis({"a": 1.0, "b": 2.0}))


async def test_a_candidate_that_is_in_the_place_with_other_tests_is_refused() -> None:
    place = SimulatedStore()
    one = msgspec.structs.replace(ONE, tests=("a",), passing={"a": 1.0})
    await _publish_unit(place, "synth-x", one)
    await _publish_unit(place, "synth-x", msgspec.structs.replace(one, passing={"a": 2.0}))
    with pytest.raises(StoreError, match="is not what this command publishes"):
        await _publish_unit(place, "synth-x", msgspec.structs.replace(one, tests=("a", "b")))


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
    await _publish_unit(place, "synth-x", one)
    with pytest.raises(StoreError, match="is refused"):
        await _read_unit(place, "synth-x", one.digest, TaskCandidate)


FUNCTION_OF_UNIT = CalledFunction("clamps/__init__.py", "clamps", "clamp_1", (), ())


@pytest.mark.parametrize(
    ("kind", "unit", "outcome"),
    [
        ("programs", ProgramUnit("a" * 16, FUNCTION_OF_UNIT, "", False), ProgramOutcome("a" * 16, "kept")),
        ("programs", ProgramUnit("a" * 16, FUNCTION_OF_UNIT, "", False), ProgramOutcome("b" * 16, "shape")),
        ("questions", TraceUnit("a" * 16, (FUNCTION_OF_UNIT,)), TraceOutcome("a" * 16, ("one",))),
    ],
)
async def test_units_of_functions_are_checked_as_candidates_are(kind: Any, unit: Any, outcome: Any) -> None:
    place, basis = SimulatedStore(), msgspec.structs.replace(BASIS_OF_CANDIDATES, kind=kind)
    await _publish_unit(place, "synth-x", unit)
    assert await _read_unit(place, "synth-x", unit.digest, type(unit)) == unit
    with pytest.raises(StoreError, match="of another candidate"):
        _decode(_record(msgspec.json.encode(outcome)), unit, basis)
    outside = msgspec.structs.replace(FUNCTION_OF_UNIT, path="../../etc/passwd")
    changed: dict[str, Any] = {"function": outside} if kind == "programs" else {"functions": (outside,)}
    other = msgspec.structs.replace(unit, digest="c" * 16, **changed)
    await _publish_unit(place, "synth-x", other)
    with pytest.raises(StoreError, match="is refused"):
        await _read_unit(place, "synth-x", other.digest, type(unit))


async def test_a_node_refuses_a_candidate_that_was_moved() -> None:
    place = SimulatedStore()
    await publish_part(place, "synth-x", "b" * 16, msgspec.json.encode(ONE))
    with pytest.raises(StoreError, match="it was moved"):
        await _read_unit(place, "synth-x", "b" * 16, TaskCandidate)
