"""One line of calls is one row, however the client sends the answers back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.learning.conversation import conversations
from assay.learning.export.config import WriteConfig
from assay.learning.export.exporting import export_for_training
from assay.learning.rendered import rendered_rows
from assay.learning.sampled import sampled_rows
from assay.records import Body, ModelCalled, Trajectory
from assay.settings import Settings
from assay.store import assistant_message
from tests.learning.recorded import store_run

pytestmark = pytest.mark.quick
Make = Callable[..., Trajectory]
Message = dict[str, Any]
EMPTY: Message = {"refusal": None, "function_call": None, "annotations": []}
"""Fields that servers put into an answer, and clients leave out of its echo."""


def resent(made: Trajectory, change: Callable[[Message], Message], *, tokens: bool = False) -> Trajectory:
    """Returns the attempt as a client leaves it that sends each answer back changed."""
    calls = list(made.calls)
    for position, call in enumerate(made.calls[1:], 1):
        answer = assistant_message(made.calls[position - 1]) or {}
        messages = [change(answer), *call.request["messages"]]
        request = {**call.request, "messages": messages}
        calls[position] = msgspec.structs.replace(call, request=request, shared_messages=call.shared_messages - 1)
    gone: dict[str, Any] = {"prompt_token_ids": None, "completion_token_ids": None, "certificate": None}
    gone |= {"shared_tokens": 0}
    kept = calls if tokens else [msgspec.structs.replace(call, **gone) for call in calls]
    return msgspec.structs.replace(made, calls=tuple(kept))


def without(*names: str) -> Callable[[Message], Message]:
    return lambda answer: {key: value for key, value in answer.items() if key not in names and value is not None}


HARMLESS: dict[str, Callable[[Message], Message]] = {
    "nulls left out": without(),
    "nulls put in": lambda answer: {**answer, **EMPTY},
    "empty content left out": lambda answer: {**answer, "content": answer["content"] or None},
    "content as parts": lambda answer: {**answer, "content": [{"type": "text", "text": answer["content"] or ""}]},
    "a name": lambda answer: {**answer, "name": "walker"},
}


@pytest.mark.parametrize("change", HARMLESS.values(), ids=HARMLESS)
def test_an_echo_with_other_empty_fields_goes_on_the_same_line(
    change: Callable[[Message], Message], trajectory: Make, renderer: Any
) -> None:
    made = resent(trajectory("a", "up", "right", "left"), change)
    (line,) = conversations(made)
    assert [call for call in line.calls if call] == ["c1", "c2", "c3"]
    assert [m for m, own in zip(line.messages, line.own, strict=True) if own] == [
        {**(assistant_message(call) or {}), "role": "assistant"} for call in made.calls
    ]
    (row,) = rendered_rows(made, renderer)
    assert len(row.turns) == 3


def other_arguments(answer: Message) -> Message:
    calls = [{**c, "function": {**c["function"], "arguments": '{"direction": "down"}'}} for c in answer["tool_calls"]]
    return {**answer, "tool_calls": calls}


def another_call(answer: Message) -> Message:
    (call,) = answer["tool_calls"]
    return {**answer, "tool_calls": [call, {**call, "id": "other"}]}


HARMFUL: dict[str, Callable[[Message], Message]] = {
    "other arguments": other_arguments,
    "another call": another_call,
    "a text": lambda answer: {**answer, "content": "I go."},
    "no calls": without("tool_calls"),
    "a user's turn": lambda answer: {**answer, "role": "user"},
}


@pytest.mark.parametrize("change", HARMFUL.values(), ids=HARMFUL)
def test_an_echo_that_says_something_else_begins_a_line(change: Callable[[Message], Message], trajectory: Make) -> None:
    assert len(list(conversations(resent(trajectory("a", "up", "right"), change)))) == 2


def test_known_tokens_decide_whether_an_echo_goes_on(trajectory: Make, renderer: Any) -> None:
    made = resent(trajectory("a", "up", "right"), lambda answer: {**answer, "content": "I go."}, tokens=True)
    assert len(list(conversations(made))) == 1
    first, second = made.calls
    cut = msgspec.structs.replace(second, shared_tokens=second.shared_tokens - 1)
    assert len(list(conversations(msgspec.structs.replace(made, calls=(first, cut))))) == 2


def test_roles_of_tokens_are_known_whatever_the_echo_leaves_out(trajectory: Make, renderer: Any) -> None:
    made = trajectory("a", "up", "right")
    (plain,) = sampled_rows(made, renderer=renderer)
    (row,) = sampled_rows(resent(made, without(), tokens=True), renderer=renderer)
    assert row.roles.tolist() == plain.roles.tolist()


def test_an_exported_file_has_one_line_for_such_an_attempt(
    attempt: Callable[..., list[Body]], trajectory: Make, tmp_path: Path
) -> None:
    calls = iter(resent(trajectory("a", "up", "right"), lambda answer: {**answer, **EMPTY}).calls)
    events: list[Body] = [
        ModelCalled(next(calls)) if isinstance(e, ModelCalled) else e for e in attempt("a", "up", "right")
    ]
    root, out = store_run(tmp_path / "s", [events]), tmp_path / "rows.jsonl"
    export_for_training("r", WriteConfig(to="openai", out=str(out)), Settings(cache=tmp_path, store=root))
    (line,) = map(json.loads, out.read_text().splitlines())
    assert [m["role"] for m in line["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert not any("weight" in message for message in line["messages"])
