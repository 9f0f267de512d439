"""What a model that remembers its conversation is asked where a reply of it was refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from assay.analysis.contracts import read_contract
from assay.gateway.call_tree import CallTree, Placement
from assay.gateway.interface import ModelReply, ModelRequest, OnDeltas
from assay.gateway.model import ModelAnswer, discard_deltas
from assay.records import AttemptStarted, Limits, Usage
from assay.rollout.limits.contract_guards import ContractGuard
from assay.rollout.limits.guarded_model import MOST_REFUSALS, GuardedModel
from assay.rollout.limits.meter import Meter
from assay.rollout.recording.recorder import Recorder
from assay.store import RunStore

NO_RM = """
contract = "c"
[[rules]]
name = "no-rm"
kind = "invariant"
require = 'not (call.name == "rm")'
enforce = "deny"
"""


def reply(*tools: str) -> ModelReply:
    calls = [{"id": f"i{n}", "function": {"name": name, "arguments": "{}"}} for n, name in enumerate(tools)]
    message: dict[str, Any] = {"role": "assistant", "content": "ok", **({"tool_calls": calls} if calls else {})}
    return ModelReply(message, "stop", Usage(3, 2), {}, {}, "m")


class Remembering:
    """Says what it is told to, and keeps what it was asked."""

    name = "m"

    def __init__(self, *replies: ModelReply) -> None:
        self.replies = list(replies)
        self.asked: list[tuple[str, int, Placement]] = []

    async def ask(self, call_id: str, request: ModelRequest, placement: Placement, on_deltas: OnDeltas) -> ModelAnswer:
        self.asked.append((call_id, len(request.messages), placement))
        found = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return ModelAnswer(found, placement.cause)


@pytest.fixture
async def recorder(tmp_path: Path) -> AsyncIterator[Recorder]:
    with RunStore.create(tmp_path, "r", {}) as store:
        made = Recorder(store, "t@0.0")
        made.add(AttemptStarted("r", "t@0", "t", "d", "a", None, 0, 0))
        yield made
        made.flush()


def guarded(model: Remembering, recorder: Recorder, limits: Limits | None = None) -> tuple[GuardedModel, Meter]:
    meter = Meter(limits or Limits())
    return GuardedModel(model, ContractGuard([read_contract(NO_RM, "x")], recorder, None), recorder, meter), meter


REQUEST = ModelRequest([{"role": "user", "content": "go"}])


async def test_a_call_that_goes_on_from_a_guarded_one_begins_a_new_branch(recorder: Recorder) -> None:
    inner, forest = Remembering(reply("rm"), reply("ls"), reply()), CallTree()
    model, _ = guarded(inner, recorder)
    first = forest.locate(REQUEST)
    answered = await model.ask("c1", REQUEST, first, discard_deltas)
    assert [name["function"]["name"] for name in answered.reply.message["tool_calls"]] == ["ls"]
    forest.add("c1", first, REQUEST, answered.reply.message)
    result = {"role": "tool", "tool_call_id": "i0", "content": "x"}
    again = ModelRequest([*REQUEST.messages, answered.reply.message, result])
    placed = forest.locate(again)
    assert placed.parent is not None
    assert (await model.ask("c2", again, placed, discard_deltas)).cause == "rewritten"
    assert [(name, count) for name, count, _ in inner.asked] == [("c1", 1), ("c1.1", 3), ("c2", 3)]
    assert inner.asked[2][2].parent is None


async def test_what_is_asked_again_is_charged_and_meets_the_limits(recorder: Recorder) -> None:
    model, meter = guarded(Remembering(reply("rm")), recorder, Limits(tokens=9))
    answered = await model.ask("c1", REQUEST, CallTree().locate(REQUEST), discard_deltas)
    assert "tool_calls" not in answered.reply.message
    assert meter.prompt_tokens + meter.completion_tokens == 10


async def test_of_a_model_that_insists_what_is_allowed_is_kept(recorder: Recorder) -> None:
    inner = Remembering(reply("rm", "ls"))
    model, _ = guarded(inner, recorder)
    answered = await model.ask("c1", REQUEST, CallTree().locate(REQUEST), discard_deltas)
    assert len(inner.asked) == MOST_REFUSALS + 1
    assert [call["function"]["name"] for call in answered.reply.message["tool_calls"]] == ["ls"]
    assert "no-rm" in answered.reply.message["content"]
    recorder.flush()
    found = recorder.store.trajectory("t@0.0")
    assert [[o.error for o in step.observations] for step in found.steps] == [[True, True]] * MOST_REFUSALS
    assert {e.data["decision"] for e in found.evidence if e.kind == "guard"} == {"denied", "not made"}
    assert [call.delivered for call in found.calls] == [False] * MOST_REFUSALS


async def test_a_reply_is_refused_for_its_reasoning(recorder: Recorder) -> None:
    rule = NO_RM.replace('not (call.name == "rm")', 'not (reasoning matches "CHEAT")')
    thought, allowed = reply("rm"), reply("ls")
    thought.message["reasoning_content"] = "I will CHEAT"
    allowed.message["reasoning_content"] = "honestly"
    guard = ContractGuard([read_contract(rule, "x")], recorder, None)
    model = GuardedModel(Remembering(thought, allowed), guard, recorder, Meter(Limits()))
    answered = await model.ask("c1", REQUEST, CallTree().locate(REQUEST), discard_deltas)
    assert [call["function"]["name"] for call in answered.reply.message["tool_calls"]] == ["ls"]
