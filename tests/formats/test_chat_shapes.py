"""Conversations in the shapes that vendors and tools write: Anthropic blocks, bare lists, logs of calls, documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.formats.chat.format import ChatFormat
from assay.formats.interface import ExportContext
from assay.records import Trajectory
from tests.formats.generated import Blobs, assembled, read_all

ANTHROPIC: dict[str, Any] = {
    "model": "claude-sonnet-4-5",
    "system": [{"type": "text", "text": "You act."}],
    "messages": [
        {"role": "user", "content": "What is the weather in Paris and Rome?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Two calls.", "signature": "sig"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}},
                {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": {"city": "Rome"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": [{"type": "text", "text": "sunny"}]},
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "no such city", "is_error": True},
                {"type": "text", "text": "Go on."},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Rome is sunny."}]},
    ],
}
ASK: dict[str, Any] = {"role": "user", "content": "2+2?"}
SAID: dict[str, Any] = {"role": "assistant", "content": "4"}
LITELLM: dict[str, Any] = {
    "id": "chatcmpl-1",
    "call_type": "acompletion",
    "model": "gpt-4o-mini",
    "messages": [ASK],
    "response": {"choices": [{"message": SAID}], "usage": {"prompt_tokens": 11, "completion_tokens": 2}},
    "response_cost": 0.00031,
    "startTime": 1700000000.0,
    "endTime": 1700000002.5,
}
DSPY: dict[str, Any] = {
    "prompt": None,
    "messages": [ASK],
    "kwargs": {},
    "outputs": ["4"],
    "usage": {"prompt_tokens": 11, "completion_tokens": 2},
    "cost": 0.00031,
    "uuid": "chatcmpl-1",
    "model": "openai/gpt-4o-mini",
    "model_type": "chat",
}


def read(path: Path, text: str) -> tuple[list[Trajectory], list[str]]:
    path.write_text(text)
    assert ChatFormat().recognises(path)
    found, problems = read_all(ChatFormat(), path, Blobs())
    return [assembled(one) for one in found], [problem.problem for problem in problems]


def test_anthropic_blocks_are_calls_results_and_reasoning(tmp_path: Path) -> None:
    ((one,), problems) = read(tmp_path / "a.jsonl", json.dumps(ANTHROPIC) + "\n")
    assert not problems
    assert [step.actor for step in one.steps] == ["environment", "user", "agent", "user", "agent"]
    acted = one.steps[2]
    assert (acted.reasoning, acted.message) == ("Two calls.", "I look.")
    assert [(c.id, c.name, c.parsed) for c in acted.tool_calls] == [
        ("toolu_1", "weather", {"city": "Paris"}),
        ("toolu_2", "weather", {"city": "Rome"}),
    ]
    assert [(o.call_id, o.content, o.error) for o in acted.observations] == [
        ("toolu_2", "sunny", False),
        ("toolu_1", "no such city", True),
    ]


def test_a_conversation_of_blocks_is_written_as_it_was_read(tmp_path: Path) -> None:
    ((one,), _) = read(tmp_path / "a.jsonl", json.dumps(ANTHROPIC) + "\n")
    ChatFormat().write([one], tmp_path / "b.jsonl", ExportContext(Blobs().content, lambda _: None))
    assert json.loads((tmp_path / "b.jsonl").read_text()) == ANTHROPIC


def test_blocks_of_bedrock_and_of_the_vercel_sdk_mean_the_same(tmp_path: Path) -> None:
    bedrock = [
        {"role": "user", "content": [{"text": "look"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "ls", "input": {"p": 1}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"json": {"a": 1}}]}}]},
    ]
    vercel = [
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool-call", "toolCallId": "t", "toolName": "ls", "input": {"p": 1}}],
        },
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "t", "output": {"value": {"a": 1}}}]},
    ]
    rows = "".join(json.dumps({"messages": messages}) + "\n" for messages in (bedrock, vercel))
    found, problems = read(tmp_path / "a.jsonl", rows)
    assert not problems
    assert [[(c.name, c.parsed) for c in t.steps[1].tool_calls] for t in found] == [[("ls", {"p": 1})]] * 2
    assert [[o.content for o in t.steps[1].observations] for t in found] == [['{"a":1}']] * 2


STORED = {**LITELLM, "messages": json.dumps([ASK]), "response": json.dumps(LITELLM["response"])}


@pytest.mark.parametrize("row", [LITELLM, DSPY, STORED], ids=["litellm", "dspy", "litellm's database"])
def test_the_answer_beside_the_messages_is_the_last_turn_with_its_tokens_and_cost(
    row: dict[str, Any], tmp_path: Path
) -> None:
    ((one,), problems) = read(tmp_path / "a.jsonl", json.dumps(row) + "\n")
    assert not problems
    assert [(s.actor, s.message) for s in one.steps] == [("user", "2+2?"), ("agent", "4")]
    (call,) = one.calls
    assert one.steps[1].call == call.id
    assert (call.usage.prompt_tokens, call.usage.completion_tokens, call.cost_usd) == (11, 2, 0.00031)


def test_a_logged_row_is_written_as_it_was_read(tmp_path: Path) -> None:
    ((one,), _) = read(tmp_path / "a.jsonl", json.dumps(LITELLM) + "\n")
    ChatFormat().write([one], tmp_path / "b.jsonl", ExportContext(Blobs().content, lambda _: None))
    assert json.loads((tmp_path / "b.jsonl").read_text()) == LITELLM


@pytest.mark.parametrize(
    ("text", "conversations"),
    [
        (json.dumps([ASK, SAID]), 1),
        (json.dumps([ASK, SAID], indent=2), 1),
        (json.dumps([[ASK, SAID], [ASK, SAID]]), 2),
        (json.dumps([ASK, SAID]) + "\n" + json.dumps([ASK, SAID]) + "\n", 2),
        (json.dumps(ASK) + "\n" + json.dumps(SAID) + "\n", 1),
    ],
    ids=["array", "indented array", "array of arrays", "lines of arrays", "one message a line"],
)
def test_bare_lists_of_messages_are_conversations(text: str, conversations: int, tmp_path: Path) -> None:
    found, problems = read(tmp_path / "a.json", text)
    assert not problems
    assert [[s.message for s in t.steps] for t in found] == [["2+2?", "4"]] * conversations


@pytest.mark.parametrize("count", [1, 3])
def test_documents_over_several_lines_are_read(count: int, tmp_path: Path) -> None:
    text = "\n".join(json.dumps({"messages": [ASK, SAID], "n": n}, indent=2) for n in range(count))
    found, problems = read(tmp_path / "a.json", text)
    assert not problems
    assert [t.started.config["imported"]["fields"]["n"] for t in found] == list(range(count))


def test_messages_that_a_column_holds_as_text_are_decoded(tmp_path: Path) -> None:
    text = json.dumps([ASK, {**SAID, "content": "4" * 300}])
    ((one,), problems) = read(tmp_path / "a.jsonl", json.dumps({"messages": text}) + "\n")
    assert not problems
    assert [s.actor for s in one.steps] == ["user", "agent"]


def test_an_unknown_role_or_part_is_told(tmp_path: Path) -> None:
    odd = [{"role": "narrator", "content": "once"}, {"role": "assistant", "content": [{"type": "hologram", "x": 1}]}]
    (_, problems) = read(tmp_path / "a.jsonl", json.dumps({"messages": odd}) + "\n")
    assert len(problems) == 2
    assert "'narrator' is unknown" in problems[0]
    assert "'hologram' is kept" in problems[1]


@pytest.mark.parametrize(
    ("name", "answers", "cost"),
    [
        ("litellm-rows.jsonl", ["It is 2.", "It is 3."], 1.35e-05),
        ("dspy-history.jsonl", ["[[ ## answer ## ]]\nParis\n\n[[ ## completed ## ]]"], 1.35e-05),
    ],
)
def test_rows_that_litellm_and_dspy_wrote_hold_their_answers(
    name: str, answers: list[str], cost: float, tmp_path: Path
) -> None:
    found, problems = read(tmp_path / name, (Path(__file__).parent / "fixtures" / name).read_text())
    assert not problems
    assert [t.steps[-1].message for t in found] == answers
    assert [[step.actor for step in t.steps] for t in found] == [["environment", "user", "agent"]] * len(answers)
    assert [(t.calls[0].usage.completion_tokens, t.calls[0].cost_usd) for t in found] == [(20, cost)] * len(answers)


def test_reasoning_parts_are_no_part_of_the_message(tmp_path: Path) -> None:
    said = [{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "Done."}]
    rows = {"messages": [{"role": "user", "content": "look"}, {"role": "assistant", "content": said}]}
    (found,), problems = read(tmp_path / "a.jsonl", json.dumps(rows) + "\n")
    assert not problems
    assert (found.steps[1].message, found.steps[1].reasoning) == ("Done.", "Hm.")


@pytest.mark.parametrize(
    ("extra", "field"),
    [
        ({"reward": 1.0}, "reward"),
        ({"success": False}, "success"),
        ({"metadata": {"outcome": "success"}}, "metadata.outcome"),
        ({"metadata": {"reward": 2.5}}, "metadata.reward"),
    ],
)
def test_a_field_that_seems_to_be_an_outcome_is_told(tmp_path: Path, extra: dict[str, Any], field: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"messages": [ASK, SAID], **extra}))
    found, problems = read_all(ChatFormat(), path, Blobs())
    assert [assembled(one).verdicts for one in found] == [()]
    assert [(one.place, one.is_remark) for one in problems] == [(field, True)]


ANSWER = {"role": "assistant", "type": "message", "id": "msg_1", "model": "claude-made", "stop_reason": "tool_use"}
USED = {"input_tokens": 10, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2, "output_tokens": 7}
LOGS: list[tuple[dict[str, Any], tuple[int, int, str]]] = [
    (
        {**ANSWER, "content": [{"type": "tool_use", "id": "t", "name": "add", "input": {"a": 2}}], "usage": USED},
        (17, 7, "anthropic-messages"),
    ),
    (
        {"model": "m", "choices": [{"message": SAID}], "usage": {"prompt_tokens": 11, "completion_tokens": 2}},
        (11, 2, "openai-chat"),
    ),
]


@pytest.mark.parametrize(("response", "wanted"), LOGS)
def test_requests_with_their_responses_are_conversations(
    response: dict[str, Any], wanted: tuple[int, int, str], tmp_path: Path
) -> None:
    row = {"request": {"model": "m", "messages": [ASK], "temperature": 0.0}, "response": response}
    (tmp_path / "log.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    assert ChatFormat().recognises(tmp_path / "log.jsonl")
    (found,), problems = read_all(ChatFormat(), tmp_path / "log.jsonl", Blobs())
    trajectory = assembled(found)
    (call,) = trajectory.calls
    assert not problems
    assert [step.actor for step in trajectory.steps] == ["user", "agent"]
    assert trajectory.steps[1].call == call.id
    assert (call.usage.prompt_tokens, call.usage.completion_tokens, call.dialect) == wanted


def test_of_several_choices_the_first_is_read_and_it_is_told(tmp_path: Path) -> None:
    row = {"messages": [ASK], "response": {"choices": [{"message": SAID}, {"message": SAID}]}}
    (tmp_path / "log.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    _, problems = read_all(ChatFormat(), tmp_path / "log.jsonl", Blobs())
    assert [problem.problem for problem in problems] == ["of 2 choices the first is read; the others are kept"]


def test_calls_and_reasoning_are_read_under_each_of_their_names(tmp_path: Path) -> None:
    calls = [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "2", "name": "g", "arguments": {"b": 2}},
        {"id": "3", "name": "h", "args": {"c": 3}, "type": "tool_call"},
        {"id": "4", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
        {"id": "5", "type": "hologram"},
    ]
    names = ("reasoning_content", "reasoning", "thinking")
    said = [{"role": "assistant", "content": "", name: f"because of {name}"} for name in names]
    messages = [ASK, {"role": "assistant", "content": "", "tool_calls": calls}, *said]
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": messages}) + "\n", encoding="utf-8")
    (found,), problems = read_all(ChatFormat(), tmp_path / "rows.jsonl", Blobs())
    steps = assembled(found).steps
    assert [(call.id, call.name) for call in steps[1].tool_calls] == [("1", "f"), ("2", "g"), ("3", "h"), ("4", "sh")]
    assert steps[1].tool_calls[2].parsed == {"c": 3}
    assert [problem.problem for problem in problems] == ["1 of 5 tool calls are kept and not read: unknown form"]
    assert [step.reasoning for step in steps[2:]] == [f"because of {name}" for name in names]


def test_a_list_that_begins_with_a_very_long_message_is_recognised(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "s" * 600_000}, ASK, SAID]
    (tmp_path / "long.json").write_text(json.dumps(messages), encoding="utf-8")
    assert ChatFormat().recognises(tmp_path / "long.json")
    (found,), problems = read_all(ChatFormat(), tmp_path / "long.json", Blobs())
    assert (len(assembled(found).steps), problems) == (3, [])


def test_a_document_that_does_not_end_loses_no_other(tmp_path: Path) -> None:
    whole = json.dumps({"messages": [ASK, SAID]}, indent=2)
    cut = whole[: len(whole) // 2]
    (tmp_path / "log.json").write_text("\n".join(["\ufeff" + whole, cut, whole, cut, cut, whole]), encoding="utf-8")
    found, problems = read_all(ChatFormat(), tmp_path / "log.json", Blobs())
    assert len(found) == 3
    assert [problem.place for problem in problems] == ["line 13", "line 31", "line 37"]
