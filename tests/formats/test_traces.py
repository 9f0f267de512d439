"""Traces of other tools: what is read has the counts that the files have by an independent count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assay.formats.otel.spans import TraceSpan, encode_value, traces
from assay.formats.registry import find_format
from assay.formats.shared.dialects import name_calls, to_answer, to_chat_messages
from assay.formats.shared.json_stream import WarnFunction
from assay.formats.traces.table import find, nest
from assay.records import Trajectory
from tests.formats.generated import read_whole

HERE = Path(__file__).parent / "traces"
WRITTEN = HERE / "written"


class Counts(NamedTuple):
    """Totals of a file."""

    turns: int
    """Of the agent."""
    tool_calls: int
    results: int
    prompt_tokens: int
    completion_tokens: int


def read(path: Path) -> Trajectory:
    """Reads the one trajectory of a file, whose format is found by its content."""
    (one,) = read_whole(find_format(path), path)
    return one


def counted(one: Trajectory) -> Counts:
    turns = [step for step in one.steps if step.actor == "agent"]
    return Counts(
        len(turns),
        sum(len(step.tool_calls) for step in one.steps),
        sum(len(step.observations) for step in one.steps),
        sum(call.usage.prompt_tokens or 0 for call in one.calls),
        sum(call.usage.completion_tokens or 0 for call in one.calls),
    )


SCRIPTED = [
    *("openinference.jsonl", "openllmetry.jsonl", "langsmith.jsonl", "mlflow.json", "openai-agents-responses.jsonl"),
    *("openai-agents-chat.jsonl", "weave.jsonl", "openai-responses.jsonl"),
]
"""Traces of the run that `traces/README.md` describes; `test_counts_logs` counts their own JSON."""


@pytest.mark.parametrize("name", SCRIPTED)
def test_a_trace_has_the_counts_of_the_run_that_it_tells_of(name: str) -> None:
    one = read(WRITTEN / name)
    assert counted(one) == Counts(3, 2, 2, 450, 63)
    assert one.steps[-1].message == (None if name == "openai-agents-responses.jsonl" else "Done: the log has one line.")
    assert next(s.observations[0].content for s in one.steps if s.observations).endswith("one\n")


@pytest.mark.parametrize("name", SCRIPTED)
def test_each_execution_belongs_to_the_call_that_the_model_asked_for(name: str) -> None:
    one = read(WRITTEN / name)
    calls = {call.id for step in one.steps for call in step.tool_calls}
    executions = [fact.data["call_id"] for fact in one.evidence if fact.kind == "execution"]
    assert set(executions) == (calls if name != "openai-responses.jsonl" else set())


def test_prompts_that_grow_are_stored_once() -> None:
    one = read(WRITTEN / "langsmith.jsonl")
    assert [call.shared_messages for call in one.calls] == [0, 3, 5]
    assert [step.actor for step in one.steps] == ["environment", "user", "agent", "agent", "agent"]


def test_items_of_responses_are_one_conversation() -> None:
    one = read(WRITTEN / "openai-responses-items.json")
    kinds = [item.get("type", "message") for item in json.loads((WRITTEN / "openai-responses-items.json").read_text())]
    assert counted(one)[:3] == (3, kinds.count("function_call"), kinds.count("function_call_output"))
    assert [step.reasoning for step in one.steps if step.actor == "agent"] == ["Think 0.", "Think 1.", "Think 2."]


def test_a_trace_without_prompts_is_a_task_of_its_own() -> None:
    assert read(WRITTEN / "openai-agents-responses.jsonl").task.startswith("trace_")


FRAMEWORKS = {
    "google-adk-2025-08-28.json": (1, 1),
    "koog-2025-08-26.json": (2, 2),
    "microsoft-agent-2025-10-14.json": (1, 1),
    "openai-agents-2025-09-30.json": (1, 1),
    "pydantic-ai-tools-2025-12-04.json": (4, 3),
}
"""Calls and results, counted by eye in each trace's page view."""


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_langfuse_trace_has_the_counts_of_its_observations(name: str) -> None:
    document = json.loads((HERE / "langfuse" / name).read_text())
    made = [o for o in document["observations"] if o["type"] == "GENERATION"]
    one = read(HERE / "langfuse" / name)
    tokens = [sum(o["usageDetails"].get(key, 0) for o in made) for key in ("input", "output")]
    assert counted(one)[1:] == (*FRAMEWORKS[name], *tokens)
    assert len(one.calls) == len(made)
    assert sum(c.cost_usd or 0 for c in one.calls) == pytest.approx(sum(o["costDetails"]["total"] for o in made))


@pytest.mark.parametrize("text", ["1\n2\n3\n", "[1,\n2, 3]"], ids=["lines", "array"])
def test_an_item_that_a_reader_breaks_on_does_not_lose_the_others(text: str, tmp_path: Path) -> None:
    def read_item(value: Any, _where: str, _bad: WarnFunction) -> list[TraceSpan]:
        return [TraceSpan(str(6 // (value - 2)), "s", None, None, None, {}, {}, {}, "flat")]

    (tmp_path / "a.json").write_text(text)
    problems: list[str] = []
    found = list(traces(tmp_path / "a.json", lambda _, problem: problems.append(problem), read_item))
    assert [span.trace for spans in found for span in spans] == ["-6", "6"]
    assert [problem.partition(":")[0] for problem in problems] == ["ZeroDivisionError"]


def test_a_score_whose_good_end_is_unknown_is_no_verdict() -> None:
    one = read(HERE / "langfuse" / "openai-agents-2025-09-30.json")
    assert one.verdicts == ()
    assert {note.data["span"].get("name") for note in one.notes} >= {"toxicity", "hallucination"}


def test_an_assessment_of_success_is_a_claimed_verdict() -> None:
    (verdict,) = read(WRITTEN / "mlflow.json").verdicts
    assert (verdict.status, verdict.reason, verdict.marks) == ("pass", "it did", ("imported",))


def test_a_call_inside_a_call_is_counted_once(tmp_path: Path) -> None:
    usage = {"input": 10, "output": 2}
    inner = {"id": "b", "traceId": "t", "parentObservationId": "a", "type": "GENERATION", "usageDetails": usage}
    outer = inner | {"id": "a", "parentObservationId": None, "usageDetails": {"input": 33, "output": 4}}
    rows = [outer | {"input": "Go.", "output": "Done."}, inner | {"input": "user: Go.", "output": "Done."}]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    one = read(path)
    assert counted(one) == Counts(1, 0, 0, 10, 2)
    assert [step.message for step in one.steps] == ["Go.", "Done."]


def test_a_prompt_that_differs_early_repeats_no_turn(tmp_path: Path) -> None:
    """A system prompt that names the time makes each prompt a new one."""
    rows, history = [], [{"role": "user", "content": "Count."}]
    for n in range(3):
        asked = [{"role": "system", "content": f"It is {n} o'clock."}, *history]
        about = {"id": str(n), "traceId": "t", "parentObservationId": None, "type": "GENERATION"}
        rows.append(about | {"startTime": f"2026-01-0{n + 1}T00:00:00Z", "input": asked, "output": str(n)})
        history = [*history, {"role": "assistant", "content": str(n)}, {"role": "user", "content": "Go on."}]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    said = [step.message for step in read(path).steps if step.extra.get("role") != "system"]
    assert said == ["Count.", "0", "Go on.", "1", "Go on.", "2"]


@pytest.mark.parametrize("name", ["openinference.jsonl", "openllmetry.jsonl"])
def test_the_same_spans_as_otlp_are_the_same_turns(name: str, tmp_path: Path) -> None:
    spans = [json.loads(line) for line in (WRITTEN / name).read_text().splitlines()]
    made = [
        {"traceId": span["context"]["trace_id"], "spanId": span["context"]["span_id"], "name": span["name"]}
        | {"parentSpanId": span["parent_id"] or "", "startTimeUnixNano": str(1_000_000_000 + position)}
        | {"attributes": [{"key": k, "value": encode_value(v)} for k, v in span["attributes"].items()]}
        for position, span in enumerate(spans)
    ]
    path = tmp_path / "spans.json"
    path.write_text(
        json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": made}]}]}, indent=1)
    )
    one = read(path)
    assert counted(one) == Counts(3, 2, 2, 450, 63)
    assert [step.message for step in one.steps] == [step.message for step in read(WRITTEN / name).steps]


def test_spans_beside_models_and_tools_keep_their_content(tmp_path: Path) -> None:
    rows = [
        {
            "id": "a",
            "traceId": "t",
            "parentObservationId": None,
            "type": "GENERATION",
            "input": "Go.",
            "output": "Done.",
        },
        {"id": "b", "traceId": "t", "parentObservationId": None, "type": "RETRIEVER", "input": "q", "output": ["d"]},
    ]
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows))
    (note,) = read(path).notes
    assert note.data["span"]["output"] == ["d"]


def test_old_openllmetry_attributes_are_read(tmp_path: Path) -> None:
    attributes = {
        "llm.request.type": "chat", "gen_ai.system": "OpenAI", "gen_ai.request.model": "gpt-4o",
        "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Look.", "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.tool_calls.0.id": "c1", "gen_ai.completion.0.tool_calls.0.name": "ls",
        "gen_ai.completion.0.tool_calls.0.arguments": "{}", "gen_ai.usage.prompt_tokens": 7,
        "gen_ai.usage.completion_tokens": 3,
    }  # fmt: skip
    span = {"name": "openai.chat", "context": {"trace_id": "0x1", "span_id": "0x2"}, "attributes": attributes}
    path = tmp_path / "spans.jsonl"
    path.write_text(json.dumps(span) + "\n")
    one = read(path)
    assert counted(one) == Counts(1, 1, 0, 7, 3)
    assert [step.message for step in one.steps] == ["Look.", None]


DIALECTS: dict[str, Any] = {
    "chat": {"role": "assistant", "content": "Hm.", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"a":1}'}}]},
    "anthropic": {"role": "assistant", "content": [
        {"type": "text", "text": "Hm."}, {"type": "tool_use", "id": "c1", "name": "ls", "input": {"a": 1}}]},
    "gemini": {"role": "model", "parts": [
        {"text": "Hm."}, {"functionCall": {"id": "c1", "name": "ls", "args": {"a": 1}}}]},
    "otel": {"role": "assistant", "parts": [
        {"type": "text", "content": "Hm."}, {"type": "tool_call", "id": "c1", "name": "ls", "arguments": {"a": 1}}]},
    "responses": {"object": "response", "output": [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hm."}]},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"a":1}'}]},
    "langchain": {"lc": 1, "type": "constructor", "id": ["AIMessage"], "kwargs": {
        "type": "ai", "content": "Hm.", "tool_calls": [{"id": "c1", "name": "ls", "args": {"a": 1}}]}},
    "completion": {"choices": [{"message": {"role": "assistant", "content": "Hm.", "tool_calls": [
        {"id": "c1", "function": {"name": "ls", "arguments": '{"a":1}'}}]}}, {"message": {"content": "Other."}}]},
}  # fmt: skip


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect_says_the_same(name: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"a":1}'}}
    assert to_answer(DIALECTS[name]) == {"role": "assistant", "content": "Hm.", "tool_calls": [call]}


RESULTS: dict[str, Any] = {
    "chat": {"role": "tool", "tool_call_id": "c1", "content": "x"},
    "anthropic": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "x"}]},
    "gemini": {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "ls", "response": "x"}}]},
    "otel": {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "x"}]},
    "responses": {"type": "function_call_output", "call_id": "c1", "output": "x"},
    "langchain": {"type": "tool", "data": {"type": "tool", "tool_call_id": "c1", "content": "x"}},
}


@pytest.mark.parametrize("name", RESULTS)
def test_every_dialect_gives_the_same_result(name: str) -> None:
    assert to_chat_messages(RESULTS[name]) == [{"role": "tool", "tool_call_id": "c1", "content": "x"}]


def test_what_has_no_place_leaves_a_mark() -> None:
    (message,) = to_chat_messages(
        {"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "Look."}]}
    )
    assert message["content"] == "[image_url]\nLook."


@pytest.mark.parametrize("said", ['{"message": "hi", "status": "ok"}', "[1, 2]", '{"text": "a"}'])
def test_json_that_a_model_wrote_is_its_words(said: str, tmp_path: Path) -> None:
    row = {"id": "a", "traceId": "t", "parentObservationId": None, "type": "GENERATION", "input": "Go.", "output": said}
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([row]))
    assert [step.message for step in read(path).steps] == ["Go.", said]


def test_a_text_among_other_fields_is_data() -> None:
    (message,) = to_chat_messages({"message": "hi", "status": "ok"})
    assert json.loads(message["content"]) == {"message": "hi", "status": "ok"}


def test_results_without_ids_answer_the_calls_in_order() -> None:
    call = {"function": {"name": "ls", "arguments": "{}"}}
    messages = to_chat_messages([
        {"role": "assistant", "content": None, "tool_calls": [call, call]},
        {"role": "tool", "content": "a"},
        {"role": "tool", "content": "b"},
    ])  # fmt: skip
    name_calls(messages)
    assert [message["tool_call_id"] for message in messages[1:]] == ["call-1", "call-2"]


def test_attributes_nest_by_their_dots_and_values_do_not() -> None:
    assert nest({"a.0.b": 1, "a.1.b": {"0": 2}, "c": 3}) == {"a": [{"b": 1}, {"b": {"0": 2}}], "c": 3}
    assert find({"a": [{"b": 1}]}, ("a.1.b", "a.0.b")) == 1
