"""Twelve turns of a model that writes as awkwardly as models do, with each known agent's way of sending them back.

Through the real server, in each dialect: one row a branch, every sampled token certified and scored alike again; beside
it, what strict prefix merging makes of the same calls. Each agent with log-probabilities that are digests of the
context; one of each dialect, and in `make campaign` each, with the built-in engine as well.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from assay.gateway.server import Gateway
from assay.gateway.tokens import TokenModel, build_token_rows, context_of
from assay.records import ModelCall
from assay.rollout.recording.model_calls import CallRecordBuilder
from assay.rollout.recording.redaction import Redactor
from assay.store.blobs import BlobStore
from assay.store.calls import restore_prompt_ids
from tests.gateway.tokens.imitations import AGENTS
from tests.gateway.tokens.scoring import assert_scored_alike, count_strict_rows
from tests.sampling import WHOLE

ODD = '{ "content" : "a b" ,"path":"hello.txt", "mode" : 420 }'
BROKEN = '{"path": "hello.txt", "content": oops}'
TURNS: list[tuple[str, str, tuple[tuple[str, str], ...]]] = [
    ("  I write.  ", " Hm,\n so. ", (("write", ODD),)),
    ("", "Two at once.", (("write", ODD), ("bash", '{"content":"ls"}'))),
    ("Oh.", "", (("write", BROKEN),)),
    ("", "", (("frobnicate", '{"path": "x"}'),)),
    ("Größe 🙂", "", (("bash", '{"content" :"<|im_end|>"}'),)),
    ("I think aloud.", "Hm.", ()),
    ("", " ", (("write", '{"path":"a","extra":[1 , 2]}'),)),
    ("Again.", "So.", (("bash", "{}"),)),
    ("", "", (("write", '{"path":"b"   }'), ("write", '{"content":"c" , "path":"d"}'))),
    ("Nearly.", "Well.", (("bash", '{"content":"cat b"}'),)),
    ("", "One more.", (("write", '{"path" : "\\u0062"}'),)),
    ("Done.", "", ()),
]
EXPECTED = {"mini-swe-agent": 2, "qwen-code": 2}
"""Rows, where it is not one: a turn that the client throws away ends a row of its own."""


def spoken(turn: tuple[str, str, tuple[tuple[str, str], ...]]) -> dict[str, Any]:
    text, thought, calls = turn
    made = [{"function": {"name": name, "arguments": raw}} for name, raw in calls]
    message: dict[str, Any] = {"role": "assistant", "content": text, "reasoning_content": thought}
    return message | ({"tool_calls": made} if made else {})


async def played(agent: str, engine: Any, renderer: Any, parts: Any) -> tuple[Any, Any]:
    """The recorder and the client after the whole script."""
    left = [renderer.render_reply(spoken(turn)) for turn in TURNS]

    async def steer(_: Any) -> Any:
        return left.pop(0)

    listener = socket.create_server(("127.0.0.1", 0))
    recorder = parts.Recorder()
    async with Gateway() as gateway:
        await gateway.listen(listener)
        session = gateway.open(TokenModel(engine, renderer, steer=steer), recorder)
        client = AGENTS[agent](f"http://127.0.0.1:{listener.getsockname()[1]}/s/{session.id}", session.key)
        await client.run(len(TURNS))
    return recorder, client


def stored(recorder: Any, folder: Path) -> dict[str, ModelCall]:
    """The calls as a run stores them."""
    keeper = CallRecordBuilder(BlobStore(folder), Redactor())
    return {exchange.id: keeper.keep(exchange) for exchange in recorder.exchanges}


def strictly(recorder: Any, renderer: Any) -> int:
    """Rows under the peers' rule: prompts as a server renders them from what the client sent."""
    return count_strict_rows(
        (renderer.render(exchange.request.messages, exchange.request.tools), exchange.reply.completion_token_ids)
        for exchange in recorder.exchanges
    )


@pytest.mark.long
@pytest.mark.parametrize("agent", sorted(AGENTS) if WHOLE else ["codex", "gemini-cli"])
async def test_every_sampled_token_of_the_engine_is_certified_in_one_row_a_branch(
    agent: str, engine: Any, renderer: Any, parts: Any, tmp_path: Path
) -> None:
    await assert_certified(agent, engine, renderer, parts, tmp_path)


@pytest.mark.parametrize("agent", sorted(AGENTS))
async def test_every_sampled_token_is_certified_in_one_row_a_branch(
    agent: str, digests: Any, renderer: Any, parts: Any, tmp_path: Path
) -> None:
    await assert_certified(agent, digests, renderer, parts, tmp_path)


async def assert_certified(agent: str, engine: Any, renderer: Any, parts: Any, folder: Path) -> None:
    recorder, client = await played(agent, engine, renderer, parts)
    kept = stored(recorder, folder)
    calls = list(kept.values())
    assert [restore_prompt_ids(kept, call) for call in calls] == [context_of(kept, call.id) for call in calls]
    assert [context_of(kept, one.id) for one in calls] == [e.reply.prompt_token_ids for e in recorder.exchanges]
    assert len(calls) == len(TURNS)
    assert all(call.certificate is not None and call.certificate.certified for call in calls)
    rows = build_token_rows(calls).rows
    assert sum(sum(row.mask) for row in rows) == sum(len(call.completion_token_ids or ()) for call in calls)
    for row in rows:
        assert_scored_alike(engine, row)
    strict = strictly(recorder, renderer)
    assert len(rows) == EXPECTED.get(agent, 1)
    assert agent == "codex" or client.changed >= 5 or agent == "mini-swe-agent"
    assert strict > len(rows)


@pytest.mark.parametrize("agent", ["claude-code", "pi"])
async def test_without_substitution_it_fails(
    agent: str, digests: Any, renderer: Any, parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(renderer), "extend", lambda *_: None)
    recorder, _ = await played(agent, digests, renderer, parts)
    assert len(build_token_rows(recorder.calls).rows) > 6
