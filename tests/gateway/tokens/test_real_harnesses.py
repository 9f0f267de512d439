"""Eight awkward turns with real command-line agents, untouched, in real sandboxes, and the built-in engine: every
sampled token is certified, in one row, and scored again under the row's context to the stored log-probability."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay.agents.harnesses import find_recipe
from assay.agents.harnesses.install import installed_or_none
from assay.environments.interface import Backend, ResourceLimits, WorkspaceSpec
from assay.gateway.tokens import TokenModel, build_token_rows
from assay.plugins import load
from assay.settings import Settings
from scripts.driving import Drive, drive
from tests.gateway.tokens.scoring import assert_scored_alike, count_strict_rows
from tests.sampling import WHOLE

TURNS, SHORT, BROKEN, DOUBLE = 8, 5, 5, 3
TOOLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "pi": ("bash", "command", {}),
    "claude-code": ("Bash", "command", {"description": "run"}),
    "codex": ("exec_command", "cmd", {}),
}


def turn(harness: str, number: int, turns: int) -> dict[str, Any]:
    """Odd spacing and key order, extra keys, reasoning with blanks, two calls at once, arguments that are no JSON."""
    if number == turns - 1:
        return {"role": "assistant", "content": "All is done."}
    name, key, more = TOOLS[harness]
    pairs = {"zzz": number} if number % 4 == 1 else {}
    pairs |= more | {key: f"echo turn-{number} >> log.txt"}
    raw = "{ " + " ,".join(f"{json.dumps(k)}  :{json.dumps(v)}" for k, v in pairs.items()) + "  }"
    raw = raw[:-6] if number == BROKEN else raw
    calls = [raw, raw.replace("turn-3", "beside-3")] if number == DOUBLE else [raw]
    return {
        "role": "assistant",
        "content": f"  Turn {number}.  " if number % 2 else "",
        "reasoning_content": " Hm,\n so. " if number % 3 == 0 else "",
        "tool_calls": [{"function": {"name": name, "arguments": one}} for one in calls],
    }


async def driven(harness: str, dialect: str, sandboxes: Backend, engine: Any, renderer: Any, turns: int = TURNS) -> Any:
    if installed_or_none(Settings.from_environment().cache, find_recipe(harness)) is None:
        pytest.skip(f"{harness} is not installed: run `assay agents install {harness}`")
    left = [renderer.render_reply(turn(harness, number, turns)) for number in range(turns)]

    async def steer(_: Any) -> Any:
        return left.pop(0)

    agent = load("agents", harness)(dialect=dialect, **({} if harness == "pi" else {"lean": True}))
    spec = WorkspaceSpec(limits=ResourceLimits(memory_mib=3072))
    what = Drive("Write the lines.", spec=spec, timeout_s=150.0, read=("/workspace/log.txt",))
    return await drive(agent, TokenModel(engine, renderer, steer=steer), sandboxes, what)


@pytest.mark.long
@pytest.mark.parametrize(
    ("harness", "dialect"),
    [
        ("pi", "openai-chat"),
        *(
            [("claude-code", "anthropic-messages"), ("codex", "openai-responses"), ("pi", "anthropic-messages")]
            if WHOLE
            else []
        ),
    ],
)
async def test_every_sampled_token_is_certified_in_one_row(
    harness: str, dialect: str, sandboxes: Backend, engine: Any, renderer: Any, parts: Any
) -> None:
    came = await driven(harness, dialect, sandboxes, engine, renderer)
    calls = [parts.as_stored(exchange) for exchange in came.exchanges]
    assert (came.error, len(calls)) == (None, TURNS)
    assert all(call.certificate.certified for call in calls)
    echoes = [echo for call in calls for echo in call.response["assay"].get("echoes", ())]
    assert len(echoes) >= 5 or harness == "codex"  # which sends every byte back
    (row,) = build_token_rows(calls).rows
    assert sum(row.mask) == sum(len(call.completion_token_ids) for call in calls)
    assert_scored_alike(engine, row)
    sent = [(renderer.render(e.request.messages, e.request.tools), e.reply.completion_token_ids) for e in came.answered]
    assert count_strict_rows(sent) > TURNS // 2
    assert f"turn-{TURNS - 2}".encode() in came.files["/workspace/log.txt"]


@pytest.mark.long
async def test_without_substitution_a_real_agent_gives_a_row_a_call(
    sandboxes: Backend, digests: Any, renderer: Any, parts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(renderer), "extend", lambda *_: None)
    came = await driven("pi", "openai-chat", sandboxes, digests, renderer, turns=SHORT)
    rows = build_token_rows([parts.as_stored(exchange) for exchange in came.exchanges]).rows
    assert len(rows) == SHORT
