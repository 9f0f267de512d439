"""Inspect logs: every recorded one, round trips, Inspect's own reader, hostile and huge ones."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from assay.errors import UserError
from assay.formats.inspect import samples as _inspect_samples
from assay.formats.inspect.format import InspectFormat
from assay.formats.interface import ExportContext
from assay.records import Evidence, StepAdded, Trajectory, Verdict
from tests.formats.generated import ROUND_TRIPS, Blobs, assembled, plain, read_all, round_trip, trajectories

INSPECT = InspectFormat()
FIXTURES = Path(__file__).parent / "fixtures"
PARTS = 7
"""Files of the shared logs that are lists of events, without an evaluation."""


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".eval", ".json"])
def test_a_generated_trajectory_comes_back_the_same(suffix: str) -> None:
    @ROUND_TRIPS
    @given(trajectories())
    def goes_round(trajectory: Trajectory) -> None:
        round_trip(INSPECT, [trajectory], suffix)

    goes_round()


def logs(shared_data: Path) -> Iterator[Path]:
    yield from (p for p in sorted((shared_data / "inspect-logs").iterdir()) if p.suffix in (".eval", ".json"))
    yield from sorted(FIXTURES.glob("inspect-*"))


def read(path: Path, blobs: Blobs | None = None) -> list[Trajectory]:
    found, problems = read_all(INSPECT, path, blobs or Blobs())
    assert all(problem.is_remark for problem in problems)
    return [assembled(one) for one in found]


@pytest.mark.long
@pytest.mark.parametrize("suffix", [".eval", ".json"])
def test_every_recorded_log_comes_back_the_same(shared_data: Path, tmp_path: Path, suffix: str) -> None:
    blobs, unread = Blobs(), []
    for number, path in enumerate(logs(shared_data)):
        assert INSPECT.recognises(path), path
        try:
            first = read(path, blobs)
        except UserError as exc:
            unread.append(str(exc))
            continue
        target = tmp_path / f"{number}{suffix}"
        INSPECT.write(first, target, ExportContext(blobs.content, lambda loss: pytest.fail(str(loss))))
        again = read(target, blobs)
        for one, other in zip(first, again, strict=True):
            assert without_version(one) == without_version(other), path
    assert len(unread) == PARTS
    assert all("events and nothing else: no evaluation, sample, message or score" in text for text in unread)


def without_version(trajectory: Trajectory) -> Any:
    """Without what the source says of the file as a whole: the log's version, and its header as a blob."""
    found = plain(trajectory)
    words = found["started"]["config"]["imported"]
    words.pop("version", None)
    words["fields"].pop("header")
    return found


def docent(shared_data: Path) -> dict[str, Trajectory]:
    return {t.task.rpartition("/")[2]: t for t in read(shared_data / "inspect-logs" / "docent-sample.eval")}


def test_a_recorded_run_has_its_turns_calls_and_verdict(shared_data: Path) -> None:
    one = docent(shared_data)["19"]
    assert [s.actor for s in one.steps] == ["environment", "user", "agent", "agent"]
    assert [c.name for s in one.steps for c in s.tool_calls] == ["python", "submit"]
    assert one.steps[2].observations[0].content == "0b101010\n"
    assert one.outcome == "pass"
    assert one.verdicts[0].marks == ("imported",)
    assert one.evidence[-1].data["values"] == {"includes": 1.0}
    assert [c.usage.prompt_tokens for c in one.calls] == [439, 499]
    assert [s.call for s in one.steps] == [None, None, one.calls[0].id, one.calls[1].id]
    assert one.started.task_digest == ""


def test_a_call_holds_only_what_the_call_before_has_not(shared_data: Path) -> None:
    one = docent(shared_data)["15"]
    assert [c.shared_messages for c in one.calls][:6] == [0, 3, 5, 7, 9, 11]
    assert [len(c.request["messages"]) for c in one.calls][:6] == [2, 1, 1, 1, 1, 2]
    assert all(c.parent == before.id for before, c in zip(one.calls, one.calls[1:], strict=False))
    assert one.calls[0].request["tools"]
    assert all(c.shared_fields == ("tools",) for c in one.calls[1:])


def test_references_are_put_in_place_everywhere(shared_data: Path) -> None:
    for path in logs(shared_data):
        if path.name.startswith("log__test_skeleton"):
            continue
        for one in read(path):
            assert "attachment://" not in str(one), path


def test_a_grader_is_no_turn_of_the_agent(shared_data: Path) -> None:
    path = shared_data / "inspect-logs" / "analysis__test_logs__2025-05-12T20-28-26-04-00_security-guide.json"
    one = read(path)[0]
    assert len(one.calls) == 2
    assert sum(s.actor == "agent" for s in one.steps) == 1


def test_commands_of_a_sandbox_are_evidence_with_exit_codes(shared_data: Path) -> None:
    one = read(shared_data / "inspect-logs" / "log__test_eval_log__log_message_deduplication.eval")[0]
    ran = [e for e in one.evidence if e.kind == "execution" and "command" in e.data]
    assert [(e.channel, e.data["command"], e.data["exit_code"]) for e in ran] == [
        ("audit", "bash --login -c ls", 0)
    ] * 5
    assert [o.exit_code for s in one.steps for o in s.observations] == [0] * 5
    assert [c.shared_messages for c in one.calls] == [0, 2, 4, 6, 8, 10]


def test_epochs_are_attempts_at_one_task(shared_data: Path) -> None:
    found = read(shared_data / "inspect-logs" / "log__test_eval_log__log_streaming.eval")
    assert sorted((t.task.rpartition("/")[2], t.number) for t in found) == [("1", 0), ("1", 1), ("2", 0), ("2", 1)]


def sample(**named: Any) -> dict[str, Any]:
    base: dict[str, Any] = {"id": "s", "epoch": 1, "input": "do it", "target": "x", "messages": [], "events": []}
    return base | {"output": {"model": "m", "choices": []}, "scores": {}} | named


def log_of(tmp_path: Path, *samples: dict[str, Any], **header: Any) -> Path:
    told = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m", "created": "2026-01-01T00:00:00Z"}}
    path = tmp_path / "log.json"
    path.write_text(json.dumps({**told, **header, "samples": list(samples)}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("value", "status", "score"),
    [
        ("C", "pass", 1.0), ("I", "fail", 0.0), ("P", "fail", 0.5), ("N", "fail", 0.0), ("yes", "pass", 1.0),
        (True, "pass", 1.0), (0.25, "fail", 0.25), (1, "pass", 1.0), ("0.5", "fail", 0.5), (37.5, "unknown", None),
        ("blue", "unknown", None), ({"a": 1, "b": 0}, "unknown", None), ([1, 0], "unknown", None),
        (float("nan"), "unknown", None), (None, "unknown", None),
    ],
)  # fmt: skip
def test_a_score_is_a_verdict_on_a_scale_from_0_to_1(
    tmp_path: Path, value: Any, status: str, score: float | None
) -> None:
    one = read(log_of(tmp_path, sample(scores={"grade": {"value": value}})))[0]
    assert [(v.status, v.score) for v in one.verdicts] == [(status, score)]


def test_a_score_on_another_scale_does_not_cloud_one_that_passes(tmp_path: Path) -> None:
    one = read(log_of(tmp_path, sample(scores={"right": {"value": "C"}, "seconds": {"value": 41.0}})))[0]
    assert one.outcome == "pass"
    assert [e.data["values"] for e in one.evidence] == [{"right": 1.0}, {"seconds": 41.0}]


def test_an_edited_score_says_who_edited_it_and_why(tmp_path: Path) -> None:
    who = {"timestamp": "2026-01-02T00:00:00Z", "author": "ann", "reason": "typo"}
    history = [{"value": "I", "provenance": None}, {"value": "C", "provenance": who}]
    one = read(log_of(tmp_path, sample(scores={"right": {"value": "C", "history": history}})))[0]
    assert "edited by ann: typo" in one.verdicts[0].reason
    assert one.verdicts[0].marks == ("imported", "edited")
    assert one.evidence[0].data["inspect"]["history"] == history


def test_an_invalidated_sample_lacks_integrity(tmp_path: Path) -> None:
    said = {"timestamp": "2026-01-02T00:00:00Z", "author": "ann", "reason": "leaked answer"}
    one = read(log_of(tmp_path, sample(scores={"right": {"value": "C"}}, invalidation=said)))[0]
    assert [(v.kind, v.status) for v in one.verdicts] == [("outcome", "pass"), ("integrity", "fail")]
    assert "leaked answer" in one.verdicts[1].reason


@pytest.mark.parametrize(
    ("frame", "boundary"),
    [
        ("inspect_ai/model/_providers/openai.py", "provider"),
        ("inspect_ai/util/_sandbox/docker/docker.py", "environment"),
        ("inspect_ai/scorer/_model.py", "verifier"),
        ("tasks/mine.py", "task"),
    ],
)
def test_an_error_is_never_the_agents_failure(tmp_path: Path, frame: str, boundary: str) -> None:
    error = {"message": "boom", "traceback": f'  File "/x/{frame}", line 3, in f', "traceback_ansi": ""}
    one = read(log_of(tmp_path, sample(error=error, scores=None)))[0]
    assert one.finished is not None
    assert (one.finished.broke, one.finished.ended, one.finished.stopped) == (boundary, None, None)
    assert one.outcome == "unknown"


def test_a_limit_stops_a_sample(tmp_path: Path) -> None:
    one = read(log_of(tmp_path, sample(limit={"type": "token", "limit": 10.0})))[0]
    assert one.finished is not None
    assert one.finished.stopped == "tokens"


def model_event(message: dict[str, Any], *asked: dict[str, Any], **named: Any) -> dict[str, Any]:
    output = {"model": "m", "choices": [{"message": message, "stop_reason": "stop"}]}
    base = {"event": "model", "model": "m", "input": list(asked), "tools": [], "tool_choice": "auto", "config": {}}
    return base | {"output": output, "timestamp": "2026-01-01T00:00:00+00:00"} | named


def test_what_the_conversation_leaves_out_is_a_turn_all_the_same(tmp_path: Path) -> None:
    hidden = {"id": "h", "role": "assistant", "content": "", "tool_calls": [call("c1", "bash", cmd="rm x")]}
    said = {"id": "s", "role": "assistant", "content": "done"}
    ran = {"event": "tool", "id": "c1", "function": "bash", "arguments": {"cmd": "rm x"}, "result": "gone"}
    asked = {"id": "u", "role": "user", "content": "go"}
    events = [model_event(hidden, asked), ran, model_event(said, asked)]
    one = read(log_of(tmp_path, sample(messages=[asked, said], events=events)))[0]
    assert [(s.actor, s.message, s.extra.get("beside")) for s in one.steps] == [
        ("user", "go", None), ("agent", "", True), ("agent", "done", None)
    ]  # fmt: skip
    assert one.steps[1].observations[0].content == "gone"


def call(id_: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": id_, "function": name, "arguments": arguments, "type": "function"}


def test_what_cannot_be_read_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    broken = sample(messages=["no message", {"role": "user", "content": "hi"}], events=[7, {"event": "info"}])
    found, unreadable = read_all(INSPECT, log_of(tmp_path, broken, 3, sample(id="t")), Blobs())  # type: ignore[arg-type]
    assert [one.key for one in found] == ["sample s epoch 1", "sample t epoch 1"]
    places = {u.place: u.problem for u in unreadable}
    assert places["samples[0].messages[0]"] == "expected a message, found str"
    assert "samples[0].events[0]" in places
    assert places["samples[1]"] == "expected a sample, found int"


def test_a_pass_that_lacks_integrity_is_written_as_invalidated(tmp_path: Path) -> None:
    one = read(log_of(tmp_path, sample(scores={"right": {"value": "C"}})))[0]
    doubt = Verdict("rules", "integrity", "fail", None, "read the tests at step 3")
    doubted = trajectory_with(one, doubt)
    target = tmp_path / "out.json"
    INSPECT.write([doubted], target, ExportContext(lambda digest: b"", lambda loss: None))
    written = json.loads(target.read_bytes())
    assert written["samples"][0]["invalidation"]["reason"] == "read the tests at step 3"
    assert written["invalidated"] is True


def trajectory_with(one: Trajectory, verdict: Verdict) -> Trajectory:
    import msgspec

    return msgspec.structs.replace(one, verdicts=(*one.verdicts, verdict))


def archive(tmp_path: Path, members: dict[str, bytes]) -> Path:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in members.items():
            opened.writestr(name, data)
    return path


HEADER = json.dumps({"version": 2, "eval": {"task": "t", "model": "m"}}).encode()


@pytest.mark.parametrize("name", ["../out.json", "/etc/x.json", "samples/../../x_epoch_1.json"])
def test_an_archive_that_leads_outside_is_refused(tmp_path: Path, name: str) -> None:
    path = archive(tmp_path, {"header.json": HEADER, name: b"{}"})
    with pytest.raises(UserError, match="refused"):
        read(path)


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, {"header.json": HEADER, "samples/1_epoch_1.json": b" " * (40 << 20)})
    with pytest.raises(UserError, match="unpacks to"):
        read(path)


def test_one_damaged_sample_does_not_hide_the_others(tmp_path: Path) -> None:
    good = json.dumps(sample()).encode()
    path = archive(tmp_path, {"header.json": HEADER, "samples/a_epoch_1.json": b"{", "samples/s_epoch_1.json": good})
    found, unreadable = read_all(INSPECT, path, Blobs())
    assert [one.key for one in found] == ["sample s epoch 1"]
    assert [u.file for u in unreadable] == ["log.eval!samples/a_epoch_1.json"]


def test_a_run_that_never_ended_is_read_from_its_journal(tmp_path: Path) -> None:
    start = json.dumps({"version": 2, "eval": {"task": "t", "model": "m"}, "plan": {}}).encode()
    members = {"_journal/start.json": start, "samples/s_epoch_1.json": json.dumps(sample()).encode()}
    one = read(archive(tmp_path, members))[0]
    assert one.started.config["imported"]["fields"]["eval"]["status"] == "started"


@pytest.mark.long
def test_a_sample_in_streamed_arrays_is_the_same(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shared_data / "inspect-logs" / "docent-sample.eval"
    whole = [plain(t) for t in read(path)]
    monkeypatch.setattr(_inspect_samples, "WHOLE", 1)
    assert [plain(t) for t in read(path)] == whole


def test_a_sample_in_chunks_is_read(tmp_path: Path) -> None:
    said = {"id": "a", "role": "assistant", "content": "attachment://0"}
    asked = {"id": "u", "role": "user", "content": "go"}
    event = {**model_event(said), "input": [], "input_refs": [[0, 1]]}
    shell = {k: v for k, v in sample().items() if k not in ("messages", "events")} | {"message_refs": [[0, 2]]}
    chunks = {"messages/0": [asked], "messages/1": [said], "events/0": [event], "attachments/0": ["a long answer"]}
    members = {f"samples/s_epoch_1/{name}.json": json.dumps(items).encode() for name, items in chunks.items()}
    members |= {"header.json": HEADER, "samples/s_epoch_1/sample.json": json.dumps(shell).encode()}
    one = read(archive(tmp_path, members))[0]
    assert [s.message for s in one.steps] == ["go", "a long answer"]
    assert one.calls[0].request["messages"][0]["content"] == "go"


@pytest.mark.long
def test_memory_is_not_decided_by_how_often_a_large_sample_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, size = tmp_path / "large.eval", 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as opened:
        opened.writestr("header.json", HEADER)
        with opened.open("samples/s_epoch_1.json", "w") as member:
            for piece in repeating(turns=120, words=2_000):
                size += member.write(piece)
    monkeypatch.setattr(_inspect_samples, "WHOLE", 1 << 20)
    tracemalloc.start()
    calls = read(path)[0].calls
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [c.shared_messages for c in calls] == [0, *range(2, 240, 2)]
    assert size > 60_000_000
    assert peak < size / 4


def repeating(turns: int, words: int) -> Iterator[bytes]:
    """A sample in an old form: every call says the whole conversation again."""
    text = json.dumps(sample())[:-1].replace('"events": [], ', "")
    yield text.encode() + b', "events": ['
    said = [json.dumps({"role": "user", "content": "go"})]
    for turn in range(turns):
        answer = {"id": f"a{turn}", "role": "assistant", "content": f"{turn} word" * words}
        event = json.dumps(model_event(answer))
        yield (b"," if turn else b"") + event.replace('"input": []', f'"input": [{", ".join(said)}]').encode()
        said += [json.dumps(answer), json.dumps({"role": "user", "content": f"on {turn}"})]
    yield b"]}"


def test_references_that_multiply_stop_at_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_inspect_samples, "MOST_EXPANDED", 1000)
    said = [{"role": "user", "content": "attachment://a"}] * 20
    found, unreadable = read_all(
        INSPECT, log_of(tmp_path, sample(messages=said, attachments={"a": "x" * 100})), Blobs()
    )
    assert sum(s.step.message == "x" * 100 for s in found[0].bodies if isinstance(s, StepAdded)) == 10
    assert ["more than 1,000 characters" in u.problem for u in unreadable] == [True]


def test_a_log_written_by_us_gives_our_records_back(tmp_path: Path, shared_data: Path) -> None:
    @settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(trajectories(without=("tokens", "truncated", "artifacts")))
    def comes_back(trajectory: Trajectory) -> None:
        target = tmp_path / "own.eval"
        target.unlink(missing_ok=True)
        INSPECT.write([trajectory], target, ExportContext(Blobs().content, lambda loss: None))
        back = read(target)[0]
        assert back.steps == trajectory.steps
        assert back.calls == trajectory.calls
        assert [v.check for v in back.verdicts] == [v.check for v in trajectory.verdicts]
        assert all("imported" in v.marks for v in back.verdicts)

    comes_back()


# Inspect itself


@pytest.fixture(scope="session")
def inspect_python() -> str:
    python = os.environ.get("ASSAY_INSPECT_PYTHON")
    if not python:
        pytest.skip("ASSAY_INSPECT_PYTHON names no Python with inspect_ai: its own reader is not asked")
    return python


ASK = """
import json, sys
from inspect_ai.log import read_eval_log
for path in sys.argv[1:]:
    log = read_eval_log(path)
    samples = [
        {"id": s.id, "epoch": s.epoch, "messages": [[m.role, m.text] for m in s.messages],
         "asked": [len(e.input) for e in s.events if e.event == "model"], "invalid": s.invalidation is not None,
         "scores": {k: str(v.value) for k, v in (s.scores or {}).items()}}
        for s in log.samples or []
    ]
    print(json.dumps({"status": log.status, "samples": samples}))
"""


def asked(python: str, *paths: Path) -> list[dict[str, Any]]:
    done = subprocess.run([python, "-c", ASK, *map(str, paths)], capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_inspect_reads_what_was_written_as_what_it_was(shared_data: Path, tmp_path: Path, inspect_python: str) -> None:
    blobs, before, after = Blobs(), [], []
    for number, path in enumerate(logs(shared_data)):
        if any(name in path.name for name in ("skeleton", "deduplication", "tool_call_error", "no-samples")):
            continue  # no log; a pool that only an older Inspect resolves; a sample that it refuses; nothing
        for suffix in (".eval", ".json"):
            after.append(tmp_path / f"{number}{suffix}")
            before.append(path)
            INSPECT.write(
                read(path, blobs), after[-1], ExportContext(blobs.content, lambda loss: pytest.fail(str(loss)))
            )
    answers = asked(inspect_python, *before, *after)
    for path, was, now in zip(before, answers[: len(before)], answers[len(before) :], strict=True):
        assert by_id(was) == by_id(now), path


def by_id(told: dict[str, Any]) -> dict[str, Any]:
    return {**told, "samples": {f"{s['id']} {s['epoch']}": s for s in told["samples"]}}


def test_inspect_reads_attempts_that_are_not_its_own(tmp_path: Path, inspect_python: str) -> None:
    made: list[Path] = []

    @settings(max_examples=60, database=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(trajectories())
    def write(trajectory: Trajectory) -> None:
        made.append(tmp_path / f"{len(made)}.{'eval' if len(made) % 2 else 'json'}")
        from tests.formats.generated import BLOBS

        INSPECT.write([trajectory], made[-1], ExportContext(BLOBS.content, lambda loss: None))

    write()
    told = asked(inspect_python, *made)
    assert [t["samples"][0]["id"] for t in told] == ["task/1"] * len(made)


def test_inspects_own_archives_with_zstandard_are_read() -> None:
    path = FIXTURES / "inspect-react.eval"
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as opened:
        assert {info.compress_type for info in opened.infolist()} == {93}
    found = {t.task + f" {t.number}": t for t in read(path)}
    one = found["task/sum 0"]
    assert [s.tool_calls[0].name for s in one.steps if s.tool_calls] == ["add", "bash", "nosuch", "submit"]
    assert next(o.exit_code for s in one.steps for o in s.observations) == 0
    assert one.steps[4].observations[0].error
    assert one.outcome == "pass"
    assert found["task/sum2 1"].outcome == "fail"
    assert facts_of(one.evidence, "execution")


def facts_of(evidence: tuple[Evidence, ...], kind: str) -> list[Evidence]:
    return [e for e in evidence if e.kind == kind]
