"""Nothing that a file holds makes a reader fail: what cannot be read is told, and the rest is read."""

from __future__ import annotations

import random
import time
from pathlib import Path

import msgspec
import pytest

from assay.errors import UserError
from assay.formats.interface import ExportContext, ImportedTrajectory
from assay.records import AttemptStarted, canonical_bytes, decode, require_finite
from tests.formats.agents import ALL, SESSIONS, TWO_WAY, comes_back, imported, mutated, verdict_of
from tests.formats.generated import Blobs, assembled, plain, read_all
from tests.sampling import WHOLE

SAMPLES = {
    "agentlens": "agentlens-bench/trajectories/psf__requests-1142/*.json",
    "agentrx": "agentrx/*.json",
    "spark": "spark-skills/[cl]*/*.json*",
    "swe-agent": "swe-agent/trajectories/demonstrations/ctf/*/*.traj",
    "swe-smith": "swe-smith/run_*/**/*.json",
    "tau-bench": "tau-bench/*.json",
    "who-and-when": "who-and-when/*/1*.json",
}


def _samples(name: str, request: pytest.FixtureRequest, scratch: Path) -> list[tuple[str, bytes]]:
    """Real files of a format; of those that have none here, what is written of another's."""
    if name in {"claude-code", "codex", "mini-swe-agent", "pi"}:
        found = sorted(SESSIONS.glob(f"{name}*/*.json*"))
    elif name == "openhands":
        found = [_written(name, SESSIONS / "openhands", name, scratch)]
    else:
        data: Path = request.getfixturevalue("shared_data")
        if name == "tau2":
            found = [_written(name, next(data.glob(SAMPLES["tau-bench"])), "tau-bench", scratch)]
        elif name == "codex-exec":
            found = [_printed(data / "spark-skills" / "lean4-proof" / "trajectory.jsonl", scratch)]
        else:
            found = sorted(data.glob(SAMPLES[name]))
        if name == "tau-bench":
            found = [_shortened(found[0], scratch)]
    assert found
    return [(path.suffix, path.read_bytes()) for path in found]


def _written(name: str, path: Path, source: str, scratch: Path) -> Path:
    blobs, target = Blobs(), scratch / f"written{TWO_WAY[name][1]}"
    runs = [assembled(one) for one in read_all(ALL[source], path, blobs)[0][:4]]
    ALL[name].write(runs, target, ExportContext(blobs.content, lambda _: None))
    return target


def _shortened(path: Path, scratch: Path) -> Path:
    """Its first runs: two megabytes are read a hundred times here."""
    (scratch / path.name).write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes())[:12]))
    return scratch / path.name


def _printed(path: Path, scratch: Path) -> Path:
    line = msgspec.json.decode(path.read_bytes().splitlines()[0])
    (scratch / "events.jsonl").write_text(line["agent_stdout_full"])
    return scratch / "events.jsonl"


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ALL))
def test_mutated_files_are_read_or_refused(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    chance, format = random.Random(name), ALL[name]
    samples = _samples(name, request, tmp_path)
    for position in range(40 if WHOLE else 16):
        ending, data = chance.choice(samples)
        path = tmp_path / f"mutated{position}{ending}"
        path.write_bytes(mutated(chance, data))
        format.recognises(path)
        try:
            read, _ = read_all(format, path, Blobs())
        except UserError:
            continue
        for one in read:
            _is_sound(one)


def _is_sound(one: ImportedTrajectory) -> None:
    """It can be stored, and read back."""
    decode(canonical_bytes(one.started), AttemptStarted)
    for body in (one.started, *one.bodies):
        require_finite(msgspec.to_builtins(body), "body")
        assert decode(canonical_bytes(body), type(body)) is not None


@pytest.mark.parametrize("name", sorted(TWO_WAY))
def test_what_is_read_of_mutated_files_comes_back(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    chance, (format, ending) = random.Random(name), TWO_WAY[name]
    samples = _samples(name, request, tmp_path)
    for position in range(60 if WHOLE else 24):
        path = tmp_path / f"mutated{position}{ending}"
        path.write_bytes(mutated(chance, chance.choice(samples)[1]))
        blobs = Blobs()
        try:
            read = [assembled(one) for one in read_all(format, path, blobs)[0]]
        except UserError:
            continue
        again = tmp_path / f"again{position}{ending}"
        format.write(read, again, ExportContext(blobs.content, lambda _: None))
        if again.is_file():
            second = [assembled(one) for one in read_all(format, again, blobs)[0]]
            assert [plain(one) for one in second] == [plain(one) for one in read]


@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b"{}\n{}\n", b"\x00" * 100, b"[" * 10_000, b"\xff\xfe"])
def test_no_format_takes_what_is_none(name: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(data)
    assert not ALL[name].recognises(path)
    assert not ALL[name].recognises(tmp_path / "absent")
    assert not ALL[name].recognises(tmp_path)


def test_a_report_that_is_a_link_to_elsewhere_is_not_read(shared_data: Path, tmp_path: Path) -> None:
    source = next((shared_data / "swe-smith" / "trajectories").rglob("*pydantic*.traj"))
    report = next((shared_data / "swe-smith").rglob("*pr_8316/report.json"))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / source.name).write_bytes(source.read_bytes())
    (folder / "report.json").symlink_to(report)
    (one,), _ = imported(ALL["swe-agent"], folder / source.name)
    with pytest.raises(ValueError, match="not enough values"):
        verdict_of(one)


def test_an_instance_name_leads_to_no_other_folder(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    report = {"resolved": True, "patch_successfully_applied": True}
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(report))
    path = tmp_path / "a" / "b" / "c" / "x.traj"
    path.write_bytes(msgspec.json.encode({"instance_id": "../../..", "trajectory": [], "history": []}))
    (one,), bad = imported(ALL["swe-agent"], path)
    assert not bad
    assert one.started.task == "../../.."
    assert len(one.bodies) == 1


def test_a_long_output_is_cut_and_comes_back_whole(tmp_path: Path) -> None:
    entry = {"action": "cat", "observation": "ü" * 100_000, "response": "r", "thought": "r"}
    path = tmp_path / "long.traj"
    path.write_bytes(msgspec.json.encode({"trajectory": [entry], "history": []}))
    (one,) = comes_back(ALL["swe-agent"], path, tmp_path)
    step = assembled(one).steps[0]
    assert len(step.observations[0].content.encode()) <= 65_536
    assert step.observations[0].truncated is not None
    assert step.observations[0].truncated.length == 200_000


def test_a_loop_of_parents_ends(tmp_path: Path) -> None:
    lines = [
        {"type": "user", "sessionId": "s", "uuid": "a", "parentUuid": "b", "message": {"role": "user", "content": "x"}},
        {"type": "user", "sessionId": "s", "uuid": "b", "parentUuid": "a", "message": {"role": "user", "content": "y"}},
    ]
    path = tmp_path / "loop.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    (one,) = comes_back(ALL["claude-code"], path, tmp_path)
    assert [step.message for step in assembled(one).steps] == ["x", "y"]


@pytest.mark.long
def test_an_answer_with_very_many_calls_takes_no_longer_than_its_length(tmp_path: Path) -> None:
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "x", "arguments": "{}"}} for i in range(20_000)]
    answers = [{"role": "tool", "tool_call_id": f"c{i}", "content": "y"} for i in range(20_000)]
    run = {"task_id": 0, "reward": 1.0, "traj": [{"role": "assistant", "content": None, "tool_calls": calls}, *answers]}
    path = tmp_path / "many.json"
    path.write_bytes(msgspec.json.encode([run]))
    began = time.process_time()
    (one,), told = imported(ALL["tau-bench"], path)
    assert time.process_time() - began < 10
    assert [bad.problem.split(":")[0] for bad in told] == ["20,000 tool calls in one answer"]
    steps = assembled(one).steps
    assert len(steps[0].observations) == len(steps[0].tool_calls) == 256
    assert len(steps) == 1 + 20_000 - 256
