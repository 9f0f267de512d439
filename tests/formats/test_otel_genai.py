"""OpenTelemetry GenAI spans: what the SDK wrote, spans without content, evaluations, traces across each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from assay.formats.interface import ExportContext
from assay.formats.otel.format import OtelGenAiFormat
from assay.records import Trajectory
from tests.formats.generated import ROUND_TRIPS, Blobs, plain, read_all, read_whole, round_trip, trajectories

OTEL = OtelGenAiFormat()
FIXTURES = Path(__file__).parent / "fixtures"
FILES = ("otel-genai-flat.jsonl", "otel-genai-otlp.jsonl")


@ROUND_TRIPS
@given(trajectories())
def test_a_generated_trajectory_comes_back_the_same(trajectory: Trajectory) -> None:
    round_trip(OTEL, [trajectory], ".jsonl")


def read(path: Path) -> list[Trajectory]:
    return read_whole(OTEL, path)


@pytest.mark.parametrize("name", FILES)
def test_what_the_sdk_wrote_is_read(name: str) -> None:
    assert OTEL.recognises(FIXTURES / name)
    found = read(FIXTURES / name)
    assert [t.agent for t in found] == ["demo", "demo"]
    one = found[0]
    assert [s.actor for s in one.steps] == ["environment", "user", "agent", "agent"]
    assert one.steps[2].tool_calls[0].parsed == {"command": "echo hello"}
    assert one.steps[2].observations[0].content == "hello\n"
    assert one.steps[3].message == "4"
    assert [(c.usage.prompt_tokens, c.shared_messages) for c in one.calls] == [(20, 0), (21, 3)]
    assert [e.data["tool"] for e in one.evidence] == ["bash"]
    assert one.outcome is None


@pytest.mark.parametrize("name", FILES)
def test_what_the_sdk_wrote_is_written_again_as_it_was(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    OTEL.write(read(FIXTURES / name), target, ExportContext(Blobs().content, lambda loss: pytest.fail(str(loss))))
    assert list(map(plain, read(target))) == list(map(plain, read(FIXTURES / name)))
    if "flat" in name:
        assert settled(target) == settled(FIXTURES / name)


def settled(path: Path) -> list[Any]:
    """Spans with their messages as data: how their text is spaced is nobody's matter."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for attributes in (one["attributes"] for one in found):
        for name in {"gen_ai.input.messages", "gen_ai.output.messages"} & attributes.keys():
            attributes[name] = json.loads(attributes[name])
    return found


def span(trace: str, id_: str, parent: str | None, start: int, **attributes: Any) -> dict[str, Any]:
    named = {f"gen_ai.{key.replace('__', '.')}": value for key, value in attributes.items()}
    times = {"start_time": f"2026-01-01T00:00:{start:02}Z", "end_time": f"2026-01-01T00:00:{start + 1:02}Z"}
    return {
        "name": id_,
        "context": {"trace_id": trace, "span_id": id_},
        "parent_id": parent,
        **times,
        "attributes": named,
    }


def flat(tmp_path: Path, *spans: dict[str, Any]) -> Path:
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in spans))
    return path


def test_spans_without_content_are_turns_of_which_nothing_is_known(tmp_path: Path) -> None:
    asked = span("t", "a", None, 1, operation__name="chat", request__model="m", usage__input_tokens=7)
    tool = span("t", "b", "a", 3, operation__name="execute_tool", tool__name="ls", tool__call__id="c")
    one = read(flat(tmp_path, asked, tool))[0]
    assert [(s.actor, s.message) for s in one.steps] == [("agent", None)]
    assert [c.name for c in one.steps[0].tool_calls] == ["ls"]
    assert one.steps[0].observations == ()
    assert one.calls[0].usage.prompt_tokens == 7


@pytest.mark.parametrize(
    ("value", "label", "status"),
    [(1.0, None, "pass"), (0.0, None, "fail"), (0.5, None, "fail"), (None, "pass", "pass"), (0.9, "pass", "pass"),
     (4.0, None, "unknown"), (4.0, "fail", "fail"), (None, "meh", "unknown")],
)  # fmt: skip
def test_an_evaluation_is_a_verdict(tmp_path: Path, value: float | None, label: str | None, status: str) -> None:
    told = {"gen_ai.evaluation.name": "right", "gen_ai.evaluation.score.value": value}
    told |= {"gen_ai.evaluation.score.label": label} if label else {}
    asked = span("t", "a", None, 1, operation__name="invoke_agent", agent__name="x")
    asked["events"] = [{"name": "gen_ai.evaluation.result", "attributes": told}]
    assert read(flat(tmp_path, asked))[0].outcome == status


def test_traces_that_lie_across_each_other_are_kept_apart(tmp_path: Path) -> None:
    spans = [span(f"t{n % 3}", f"s{n}", None, n, operation__name="chat", request__model=f"m{n % 3}") for n in range(12)]
    found = read(flat(tmp_path, *spans))
    assert [(t.model, len(t.calls)) for t in found] == [("m0", 4), ("m1", 4), ("m2", 4)]


def test_a_failed_span_breaks_the_attempt(tmp_path: Path) -> None:
    asked = span("t", "a", None, 1, operation__name="chat", request__model="m")
    asked["status"] = {"status_code": "ERROR", "description": "overloaded"}
    one = read(flat(tmp_path, asked))[0]
    assert one.finished is not None
    assert (one.finished.broke, one.calls[0].error) == ("environment", "overloaded")


def test_what_is_no_span_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    path = flat(tmp_path, span("t", "a", None, 1, operation__name="chat"))
    path.write_text("{\n[]\n" + path.read_text() + '{"resourceSpans":[{"scopeSpans":[{"spans":[4]}]}]}\n')
    found, unreadable = read_all(OTEL, path, Blobs())
    assert len(found) == 1
    places = [u.place for u in unreadable]
    assert places == ["line 1", "line 2", "line 4.resourceSpans[0].scopeSpans[0].spans[0]"]


def test_structured_messages_and_documents_of_several_lines_are_read(tmp_path: Path) -> None:
    said = {"role": "user", "parts": [{"type": "text", "content": "go"}, {"type": "blob", "content": "x"}]}
    value = {"arrayValue": {"values": [as_otlp(said)]}}
    attributes = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.input.messages", "value": value},
    ]
    raw = {"traceId": "t", "spanId": "s", "startTimeUnixNano": "1700000000000000000", "attributes": attributes}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [raw]}]}]}, indent=1))
    one = read(path)[0]
    assert [s.message for s in one.steps] == ["go", None]
    target = tmp_path / "again.jsonl"
    OTEL.write([one], target, ExportContext(Blobs().content, lambda loss: pytest.fail(str(loss))))
    assert plain(read(target)[0]) == plain(one)


def as_otlp(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": k, "value": as_otlp(v)} for k, v in value.items()]}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [as_otlp(v) for v in value]}}
    return {"stringValue": value}


@pytest.mark.parametrize(
    "attribute",
    [
        {"key": ["a list"], "value": {"stringValue": "x"}},
        {"key": "a", "value": {"arrayValue": {"values": 3}}},
        {"key": "a", "value": {"kvlistValue": {"values": 3}}},
    ],
)
def test_odd_attributes_are_passed_over(tmp_path: Path, attribute: dict[str, Any]) -> None:
    batch = json.loads((FIXTURES / "otel-genai-otlp.jsonl").read_text().splitlines()[0])
    for scoped in batch["resourceSpans"][0]["scopeSpans"]:
        for span in scoped["spans"]:
            span["attributes"].append(attribute)
    (tmp_path / "odd.jsonl").write_text(json.dumps(batch))
    assert read(tmp_path / "odd.jsonl")[0].agent == "demo"
