from __future__ import annotations

from typing import Any

import pytest

from assay.agents._context import MARKER
from assay.agents.interface import Agent
from assay.agents.loop import LoopAgent
from assay.agents.testing import FakeAttempt, FakeTools, fake_task
from assay.environments.interface import ToolSpec
from assay.errors import LimitReached, ProviderError, UserError
from assay.gateway.backends.scripted import Reply, Script, ScriptedBackend, ScriptedCall, ScriptedError
from assay.gateway.interface import ModelRequest
from assay.records import Limits, Message, Observation

pytestmark = pytest.mark.quick
ADD = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}
DONE = Reply(tool_calls=(ScriptedCall("finish", {"message": "done"}),))


def calls(*given: ScriptedCall, content: str | None = None) -> Reply:
    return Reply(content=content, tool_calls=given)


def attempt_with(*replies: Any, **fields: Any) -> FakeAttempt:
    functions: dict[str, Any] = {"add": lambda a: str(a["x"] + a["y"]), "boom": lambda a: 1 / 0}
    tools = fields.pop("tools", None) or FakeTools(functions, {"add": ADD})
    return FakeAttempt(backend=ScriptedBackend(replies or ["-"]), tools=tools, **fields)


def sent(attempt: FakeAttempt, call: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = attempt.calls[call].request["messages"]
    return messages


async def test_a_call_is_made_shown_and_recorded() -> None:
    attempt = attempt_with(calls(ScriptedCall("add", {"x": 1, "y": 2}), content="adding"), DONE)
    await LoopAgent().run(attempt)
    step = attempt.steps[0]
    assert (step.message, step.call, step.tool_calls[0].parsed) == ("adding", "m0", {"x": 1, "y": 2})
    assert step.observations == (Observation("3", "call_0_0"),)
    assert sent(attempt, 1)[-1] == {"role": "tool", "tool_call_id": "call_0_0", "content": "3"}
    assert (attempt.ended, len(attempt.calls)) == ("done", 2)
    assert isinstance(LoopAgent(), Agent)


async def test_what_was_sent_is_never_changed() -> None:
    attempt = attempt_with(*[calls(ScriptedCall("add", {"x": n, "y": 1})) for n in range(4)], DONE)
    await LoopAgent().run(attempt)
    lengths = [len(sent(attempt, n)) for n in range(5)]
    assert lengths == [2, 4, 6, 8, 10]
    assert all(sent(attempt, 4)[:n] == sent(attempt, i) for i, n in enumerate(lengths))


async def test_parallel_calls_run_in_order() -> None:
    first, second = ScriptedCall("add", {"x": 1, "y": 1}), ScriptedCall("add", {"x": 2, "y": 2})
    attempt = attempt_with(calls(first, second), DONE)
    await LoopAgent().run(attempt)
    assert [o.content for o in attempt.steps[0].observations] == ["2", "4"]
    assert [m["tool_call_id"] for m in sent(attempt, 1)[-2:]] == ["call_0_0", "call_0_1"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (ScriptedCall("add", "{bad"), "the arguments are no JSON"),
        (ScriptedCall("add", "[1]"), "must be a JSON object"),
        (ScriptedCall("add", "[" * 5000), "the arguments are no JSON"),
        (ScriptedCall("boom", '{"x":' + "[" * 70 + "]" * 70 + "}"), "nested more than 64 deep"),
        (ScriptedCall("ad", {}), "no tool is called 'ad'; known: add, boom, finish"),
        (ScriptedCall("add", {"x": 1}), "'y' is missing"),
        (ScriptedCall("add", {"x": "1", "y": 2}), "arguments.x: expected integer, got string"),
        (ScriptedCall("add", {"x": 1, "y": 2, "z": 3}), "unknown 'z'; known: x, y"),
        (ScriptedCall("finish", {}), "'message' is missing"),
    ],
)
async def test_a_malformed_call_is_answered_and_recorded(call: ScriptedCall, error: str) -> None:
    attempt = attempt_with(calls(call), DONE)
    await LoopAgent().run(attempt)
    recorded, seen = attempt.steps[0].tool_calls[0], attempt.steps[0].observations[0]
    assert recorded.error is not None
    assert error in recorded.error
    assert (seen.error, seen.content) == (True, recorded.error)
    assert sent(attempt, 1)[-1]["content"] == recorded.error
    assert attempt.ended == "done"


async def test_many_shallow_arguments_are_no_trouble() -> None:
    attempt = attempt_with(calls(ScriptedCall("boom", {"x": [[n] for n in range(1000)]})), DONE)
    await LoopAgent().run(attempt)
    assert attempt.steps[0].tool_calls[0].error is None


async def test_no_more_calls_than_a_turn_may_have() -> None:
    attempt = attempt_with(calls(*[ScriptedCall("boom")] * 500), DONE)
    await LoopAgent().run(attempt)
    assert len(attempt.steps[0].tool_calls) == len(sent(attempt, 1)[-129]["tool_calls"]) == 128


async def test_raw_arguments_are_kept_and_sent_back_as_json() -> None:
    attempt = attempt_with(calls(ScriptedCall("add", "{bad")), DONE)
    await LoopAgent().run(attempt)
    assert attempt.steps[0].tool_calls[0].arguments == "{bad"
    assert sent(attempt, 1)[-2]["tool_calls"][0]["function"]["arguments"] == '{"malformed_arguments":"{bad"}'


@pytest.mark.parametrize("raw", [3, None, {}, {"function": 3}, {"function": {"name": 4, "arguments": []}}])
async def test_calls_of_any_shape_are_answered(raw: Any) -> None:
    class Odd(ScriptedBackend):
        async def complete(self, request: ModelRequest, on_deltas: object = None) -> Any:
            reply = await super().complete(request)
            if len(request.messages) == 2:
                reply.message["tool_calls"] = [raw, raw]
            return reply

    attempt = attempt_with()
    attempt.backend = Odd(["odd", DONE])
    await LoopAgent().run(attempt)
    assert [c.id for c in attempt.steps[0].tool_calls] == ["call_0_0", "call_0_1"]
    assert all(o.error for o in attempt.steps[0].observations)


async def test_equal_ids_are_made_unique() -> None:
    one = ScriptedCall("add", {"x": 1, "y": 1}, id="same")
    attempt = attempt_with(calls(one, one), DONE)
    await LoopAgent().run(attempt)
    ids = [c.id for c in attempt.steps[0].tool_calls]
    assert ids == ["same", "same_0_1"]
    assert [c["id"] for c in sent(attempt, 1)[-3]["tool_calls"]] == ids


async def test_a_tool_that_fails_is_shown() -> None:
    attempt = attempt_with(calls(ScriptedCall("boom")), DONE)
    await LoopAgent().run(attempt)
    assert "ZeroDivisionError" in sent(attempt, 1)[-1]["content"]


async def test_nothing_is_executed_after_finish() -> None:
    add = ScriptedCall("add", {"x": 1, "y": 1})
    attempt = attempt_with(calls(add, ScriptedCall("finish", {"message": "bye"}), add))
    await LoopAgent().run(attempt)
    assert attempt.ended == "bye"
    assert [o.error for o in attempt.steps[0].observations] == [False, True]
    assert "before it" in attempt.steps[0].observations[1].content


async def test_finish_alone_is_recorded_as_said() -> None:
    attempt = attempt_with(Reply(content="all good", tool_calls=DONE.tool_calls))
    await LoopAgent().run(attempt)
    assert [(s.message, s.tool_calls, s.call) for s in attempt.steps] == [("all good", (), "m0")]


async def test_a_world_with_its_own_finish_keeps_it() -> None:
    tools = FakeTools({"finish": lambda a: "the world heard"})
    attempt = attempt_with(DONE, "over", "over", tools=tools)
    await LoopAgent().run(attempt)
    assert tools.calls == [("finish", {"message": "done"})]
    assert attempt.ended == "over"


async def test_silence_is_nudged_and_then_taken_as_the_end() -> None:
    attempt = attempt_with("hm", calls(ScriptedCall("add", {"x": 1, "y": 1})), "well", "that is all")
    await LoopAgent(nudges="1").run(attempt)
    assert [s.message for s in attempt.steps] == ["hm", None, "well", "that is all"]
    assert sent(attempt, 1)[-1]["role"] == "user"
    assert attempt.ended == "that is all"


async def test_no_nudge_if_none_is_wanted() -> None:
    attempt = attempt_with("hm")
    await LoopAgent(nudges=0).run(attempt)
    assert attempt.ended == "hm"


async def test_an_empty_reply_is_sent_back_as_text() -> None:
    attempt = attempt_with(Reply(content=None), DONE)
    await LoopAgent().run(attempt)
    assert sent(attempt, 1)[-2] == {"role": "assistant", "content": ""}


async def test_long_output_is_shown_cut_and_recorded_whole() -> None:
    seen = Observation("a" * 500 + "b" * 500, exit_code=3, stderr="warned", timed_out=True)
    attempt = attempt_with(calls(ScriptedCall("big")), DONE, tools=FakeTools({"big": lambda a: seen}))
    await LoopAgent(max_output_chars=100).run(attempt)
    text = sent(attempt, 1)[-1]["content"]
    assert text.startswith("a" * 50 + "\n[900 characters cut]\n" + "b" * 50)
    assert text.endswith("\n[stderr]\nwarned\n[timed out]\n[exit code 3]")
    assert attempt.steps[0].observations[0].content == seen.content


def overflowing(size: int) -> Any:
    """A model that refuses conversations of more characters, and otherwise asks for the next output."""

    def answer(request: ModelRequest) -> Any:
        if sum(len(m["content"] or "") for m in request.messages) > size:
            return Reply(error=ScriptedError("context_length_exceeded: too long", status=400))
        turn = sum(m["role"] == "assistant" for m in request.messages)
        return DONE if turn == 8 else calls(ScriptedCall("big"))

    return answer


async def test_old_outputs_are_dropped_when_the_conversation_is_too_long() -> None:
    attempt = attempt_with(tools=FakeTools({"big": lambda a: "x" * 1000}))
    attempt.backend = ScriptedBackend(overflowing(5000))
    await LoopAgent(system="").run(attempt)
    assert attempt.ended == "done"
    dropped = [call for e in attempt.evidence for call in e.data["calls"]]
    assert [e.kind for e in attempt.evidence] == ["context_dropped"] * len(attempt.evidence)
    shown = {m["tool_call_id"]: m["content"] for m in sent(attempt, -1) if m["role"] == "tool"}
    assert [call for call, text in shown.items() if text == MARKER] == sorted(dropped)
    assert list(shown.values())[-2:] == ["x" * 1000] * 2


async def test_the_attempt_ends_when_nothing_is_left_to_drop() -> None:
    attempt = attempt_with(Reply(error=ScriptedError("context_length_exceeded", status=400)))
    await LoopAgent().run(attempt)
    assert attempt.ended is not None
    assert "no longer fits" in attempt.ended


async def test_other_failures_of_the_server_pass() -> None:
    attempt = attempt_with(Reply(error=ScriptedError("on fire", status=500)))
    with pytest.raises(ProviderError, match="on fire"):
        await LoopAgent().run(attempt)


async def test_limits_pass() -> None:
    attempt = attempt_with(*[calls(ScriptedCall("boom"))] * 5, task=fake_task(limits=Limits(turns=2)))
    with pytest.raises(LimitReached, match="turns"):
        await LoopAgent().run(attempt)
    assert len(attempt.steps) == 2


async def test_the_loop_has_a_bound_of_its_own() -> None:
    attempt = attempt_with()
    attempt.backend = ScriptedBackend(Script(replies=(calls(ScriptedCall("boom")),), after="last"))
    with pytest.raises(LimitReached, match="limit turns reached: 3 of 3"):
        await LoopAgent(max_turns=3).run(attempt)


async def test_options_reach_the_model() -> None:
    attempt = attempt_with(calls(ScriptedCall("add", {"x": 1, "y": 2})), DONE, seed=2**40 + 7)
    await LoopAgent(system="be brief", temperature="0.5", seeded="true", sampling={"top_k": 3}).run(attempt)
    request, later = (attempt.calls[n].request for n in range(2))
    assert request["messages"][0] == {"role": "system", "content": "be brief"}
    assert (request["temperature"], request["top_k"]) == (0.5, 3)
    assert request["seed"] != later["seed"]
    assert all(0 <= one["seed"] < 2**31 for one in (request, later))
    assert [t["function"]["name"] for t in request["tools"]] == ["add", "boom", "finish"]


async def test_a_table_may_be_given_as_json() -> None:
    attempt = attempt_with(DONE)
    await LoopAgent(sampling='{"top_k": 3}').run(attempt)
    assert attempt.calls[0].request["top_k"] == 3
    with pytest.raises(UserError, match=r"sampling is not JSON .* write for example"):
        LoopAgent(sampling="{top_k: 3}")


async def test_an_instruction_of_messages_is_sent_as_messages() -> None:
    task = fake_task()
    parts: Any = (Message("user", "a", name="ann"), Message("assistant", "b"), Message("user", [{"type": "text"}]))
    attempt = attempt_with("x", "y", DONE, task=type(task)(**{**task_fields(task), "instruction": parts}))
    await LoopAgent(system="").run(attempt)
    assert sent(attempt, 0)[0] == {"role": "user", "content": "a", "name": "ann"}
    assert [m["role"] for m in sent(attempt, 0)] == ["user", "assistant", "user"]


def task_fields(task: Any) -> dict[str, Any]:
    return {name: getattr(task, name) for name in task.__struct_fields__}


async def test_reasoning_is_recorded_and_sent_back_only_on_request() -> None:
    for keep in (False, True):
        attempt = attempt_with(Reply(reasoning="because", tool_calls=(ScriptedCall("boom"),)), DONE)
        await LoopAgent(keep_reasoning=keep).run(attempt)
        assert attempt.steps[0].reasoning == "because"
        assert ("reasoning_content" in sent(attempt, 1)[-2]) is keep


def test_wrong_options_are_explained() -> None:
    with pytest.raises(TypeError, match=r"no option temprature; did you mean temperature\? known: memory, "):
        LoopAgent(temprature=1)
    with pytest.raises(UserError, match=r"max_turns"):
        LoopAgent(max_turns=0)
    with pytest.raises(UserError, match=r"expected a finite number, got the string"):
        LoopAgent(temperature="hot")


async def test_no_model_is_explained() -> None:
    with pytest.raises(UserError, match="no model"):
        await LoopAgent().run(FakeAttempt())


def test_tool_specs_are_offered_as_functions() -> None:
    from assay.environments.schemas import tool_definitions

    function = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    assert tool_definitions((ToolSpec("f", "d", {"type": "object"}),)) == [{"type": "function", "function": function}]


async def test_it_goes_on_in_the_middle_as_if_it_had_come_there_itself() -> None:
    first = calls(ScriptedCall("add", {"x": 1, "y": 2}), content="adding")
    whole = attempt_with(first, "thinking", calls(ScriptedCall("add", {"x": 2, "y": 2})), DONE)
    await LoopAgent().run(whole)
    forked = attempt_with("-", "-", "-", DONE)
    await LoopAgent().continue_from(forked, whole.steps[:3])
    assert sent(forked, 0) == sent(whole, 3)
    assert len(forked.steps) == 1
