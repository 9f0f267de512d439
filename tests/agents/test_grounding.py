"""The index of grounding by hand, and the loop that acts on it."""

from __future__ import annotations

import math

import pytest

from assay.agents.grounding import GroundingMeter, summarise_grounding
from assay.agents.loop import LoopAgent
from assay.agents.testing import FakeAttempt, FakeTools, fake_task
from assay.gateway.backends.scripted import Reply, ScriptedBackend, ScriptedCall

pytestmark = pytest.mark.quick


def test_index_by_hand() -> None:
    meter = GroundingMeter("find the owner")
    first = meter.add(0, "I search", "search owner alpha", "alpha beta gamma")
    assert (first.evidence, first.plan, first.outcome, first.score) == (0.0, None, None, 0.0)
    second = meter.add(1, "I read beta", "read beta", "delta")
    assert (second.evidence, second.outcome) == (0.5, 0.0)
    assert second.plan == 0.0  # "search" against "read", "beta"
    third = meter.add(2, "I read delta", "read delta", "delta")
    assert (third.evidence, third.plan, third.outcome) == (0.5, 1 / 3, 1.0)
    mean, deviation = 0.25, math.sqrt(2 * 0.25**2)  # of 0 and 0.5
    assert third.score == pytest.approx((0.5 - mean) / deviation)  # plan and outcome have one earlier value each


def test_repeated_steps_that_rest_on_nothing_fall_below_the_alarm() -> None:
    meter = GroundingMeter("")
    steps = [meter.add(n, f"plan {n} one{n} two{n}", f"open item{n}", f"item{n + 1} room{n}") for n in range(6)]
    assert all(one.score > -2 for one in steps)
    again = [meter.add(6 + n, "the same plan once more", f"open nowhere{n}", "error nothing found") for n in range(3)]
    assert again[-1].score < -2
    found = summarise_grounding([*steps, *again])
    assert (found.steps, found.low) == (9, sum(one.score < -2 for one in again))


def test_an_empty_attempt_has_no_mean() -> None:
    assert summarise_grounding([]).mean is None
    assert GroundingMeter("").add(0, "", "", "").score == 0.0


async def test_the_loop_tells_a_model_that_repeats_itself_and_records_it() -> None:
    turns = [Reply(f"plan {n} one{n} two{n}", tool_calls=(ScriptedCall("look", {"at": f"item{n}"}),)) for n in range(6)]
    turns += [
        Reply("the same plan once more", tool_calls=(ScriptedCall("look", {"at": f"void{n}"}),)) for n in range(3)
    ]
    tools = FakeTools({"look": look})
    attempt = FakeAttempt(backend=ScriptedBackend([*turns, "done", "done"]), tools=tools, task=fake_task("look around"))
    await LoopAgent(grounding=-2.0).run(attempt)
    notes = [one.data for one in attempt.evidence if one.kind == "ungrounded"]
    assert [one["again"] for one in notes] == [False, True][: len(notes)]
    assert notes[0]["index"] < -2
    told = [m["content"] for m in attempt.calls[-1].request["messages"] if m["role"] == "user"]
    assert "Name what the outputs have established" in told[1]

    silent = FakeAttempt(backend=ScriptedBackend([*turns, "done", "done"]), tools=tools, task=fake_task("look around"))
    await LoopAgent().run(silent)
    assert [one.kind for one in silent.evidence] == []


def look(arguments: dict[str, str]) -> str:
    """Shows the next item, or the same error."""
    name = arguments["at"]
    return f"item{int(name[4:]) + 1} room{name[4:]}" if name.startswith("item") else "error nothing found"
