"""Whatever a client makes of a conversation, every sampled token is certified, and its row shows what the model saw.

The backend's log-probabilities are a digest of the whole context, so a row with another context cannot have them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.gateway.tokens import TokenModel, TokenRows, build_token_rows
from assay.records import ModelCall

TOOLS = ("write", "bash")
ARGUMENTS = st.sampled_from(
    [
        '{"a": 1, "b": "x"}',
        '{ "b" : "x" ,"a":1 }',
        '{"a":1,"b":"x","extra":[1]}',
        '{"a": oops',
        '{"a": "<|im_end|>"}',
        "",
    ]
)
TEXTS = st.sampled_from(["", "I act.", "  Blanks. ", "Größe 🙂", "<think>no</think>", '{"name": "write"}', "call_me"])
TURNS = st.builds(
    lambda text, thought, calls: {"text": text, "thought": thought, "calls": calls},
    TEXTS,
    st.sampled_from([None, "Hm.", " So, \n"]),
    st.lists(ARGUMENTS, max_size=2),
)
REWRITES = ("as it is", "respelled", "short", "replaced", "renamed", "parts", "form", "no reasoning")
BREAKS = ("compaction", "dropped", "again", "tools", "sub-agent", "edited")
STEPS = st.lists(
    st.tuples(TURNS, st.sampled_from(REWRITES), st.sampled_from((None,) * 8 + BREAKS)), min_size=1, max_size=7
)


def respelled(raw: str, *, short: bool) -> str:
    try:
        value = json.loads(raw)
    except json.JSONDecodeError:
        return '{"__unparsedToolInput":{"raw":""}}'
    return json.dumps({key: item for key, item in sorted(value.items()) if not (short and key == "extra")})


def rewritten(answer: dict[str, Any], how: str) -> dict[str, Any]:
    """The turn as a client of that kind sends it back."""
    echo = {**answer, "content": answer["content"] or ""}
    if how != "as it is":
        echo.pop("reasoning_content", None)
    calls = []
    for call in answer.get("tool_calls", ()):
        name, raw = call["function"]["name"], call["function"]["arguments"]
        name, raw = ("invalid", "{}") if how == "renamed" else (name, raw)
        raw = respelled(raw, short=how == "short") if how in {"respelled", "short", "replaced"} else raw
        calls.append({**call, "function": {"name": name, "arguments": raw}})
    if how == "parts":
        echo["content"] = [{"type": "text", "text": echo["content"]}]
    if how == "form" and calls:
        return {"role": "assistant", "content": f"Calling tools:\n{calls!r}"}
    return echo | ({"tool_calls": calls} if calls else {})


def edited(echo: dict[str, Any]) -> dict[str, Any]:
    if not echo.get("tool_calls"):
        return {"role": "assistant", "content": "Something else."}
    calls = [
        {**call, "function": {**call["function"], "arguments": '{"a": 7, "b": "y"}'}} for call in echo["tool_calls"]
    ]
    return {**echo, "tool_calls": calls}


async def played(client: Any, parts: Any, steps: list[Any]) -> None:
    """Drives a client through its steps."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be."}, {"role": "user", "content": "Go."}]
    tools = parts.TOOLS
    for position, (_, how, event) in enumerate(steps):
        answer = await client.ask(messages, tools=tools, max_tokens=5, seed=position)
        if event == "again":
            answer = await client.ask(messages, tools=tools, max_tokens=5, seed=position + 100)
        if event == "sub-agent":
            await client.ask([{"role": "system", "content": "Sub."}, {"role": "user", "content": f"{position}"}])
        echo = rewritten(answer, how)
        echo = edited(echo) if event == "edited" else echo
        turn = [] if event == "dropped" else [echo, *parts.results(echo, f"done <|im_end|> {position}")]
        messages = [*messages, *turn, {"role": "user", "content": f"On {position}."}]
        if event == "compaction":
            messages = [messages[0], {"role": "user", "content": f"Summary {position}."}]
        tools = parts.TOOLS[:1] if event == "tools" else tools


def proved(calls: list[ModelCall], score: Any, tolerance: float = 0.0) -> TokenRows:
    """Every call certified, every sampled token trained once, every row scored as it was sampled."""
    assert all(call.certificate is not None and call.certificate.certified for call in calls)
    rows = build_token_rows(calls)
    assert sum(sum(row.mask) for row in rows.rows) == sum(len(call.completion_token_ids or ()) for call in calls)
    for row in rows.rows:
        for span in row.spans:
            again = score(row.token_ids[: span.start], row.token_ids[span.start : span.end])
            kept = row.logprobs[span.start : span.end]
            assert max(abs(one - other) for one, other in zip(again, kept, strict=True)) <= tolerance
    return rows


def script(renderer: Any, steps: list[Any]) -> Any:
    """Steers every second turn; the others are the model's own."""
    turns = [turn for turn, _, _ in steps]
    count = [0]

    async def steer(request: Any) -> Any:
        turn = turns[count[0] % len(turns)]
        count[0] += 1
        if count[0] % 3 == 0 or not (turn["text"] or turn["calls"]):
            return None
        calls = [{"function": {"name": TOOLS[i % 2], "arguments": raw}} for i, raw in enumerate(turn["calls"])]
        message = {"role": "assistant", "content": turn["text"], "reasoning_content": turn["thought"] or ""}
        return renderer.render_reply(message | ({"tool_calls": calls} if calls else {}))

    return steer


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(STEPS)
async def test_whatever_a_client_does_every_span_is_certified_and_scored_alike(
    renderer: Any, parts: Any, steps: list[Any]
) -> None:
    backend = parts.Echoing([token for token in range(400) if renderer.is_plain(token)])
    client = parts.Talk(TokenModel(backend, renderer, steer=script(renderer, steps)))
    await played(client, parts, steps)
    rows = proved(client.calls, backend.score).rows
    if not any(event for _, _, event in steps):
        assert len(rows) == 1


async def test_a_broken_substitution_is_found(renderer: Any, parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tells the model the client's echo, and claims that it was told the sampled tokens: the rows do not score."""
    steps = [({"text": "I act.", "thought": None, "calls": ['{ "b" : "x" ,"a":1 }']}, "respelled", None)] * 3
    backend = parts.Echoing([token for token in range(400) if renderer.is_plain(token)])
    generate = backend.generate

    async def told_otherwise(prompt: Any, *rest: Any, **more: Any) -> Any:
        return await generate([token for token in prompt if token != prompt[len(prompt) // 2]], *rest, **more)

    monkeypatch.setattr(backend, "generate", told_otherwise)
    client = parts.Talk(TokenModel(backend, renderer, steer=script(renderer, steps)))
    await played(client, parts, steps)
    with pytest.raises(AssertionError):
        proved(client.calls, backend.score)


async def test_without_substitution_each_call_is_a_row(
    renderer: Any, parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [({"text": "I act.", "thought": "Hm.", "calls": ['{ "b" : "x" ,"a":1 }']}, "respelled", None)] * 4
    monkeypatch.setattr(type(renderer), "extend", lambda *_: None)
    backend = parts.Echoing([token for token in range(400) if renderer.is_plain(token)])
    client = parts.Talk(TokenModel(backend, renderer, steer=script(renderer, steps)))
    await played(client, parts, steps)
    assert len(proved(client.calls, backend.score).rows) == 4
    assert [call.cause for call in client.calls] == ["root", "rewritten", "rewritten", "rewritten"]
