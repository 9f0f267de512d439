"""The check `pointing`: its parts by hand, and that no part of them is a success."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from assay.environments.services.plans import PlannedCall
from assay.environments.services.shortest_paths import read_ways, similarity
from assay.errors import TaskError
from assay.records import Check, EnvironmentSpec, Step, Task, ToolCall, Verdict
from assay.verify.interface import WorldInput
from assay.verify.pointing_check import PointingCheck
from tests.environments.services.test_machines import DOOR

PLAN = ["visit_porter", "take_coin", "back", "on", "enter"]
"""One of two shortest ways; the lamp may be lit first."""


def call(name: str, **more: Any) -> dict[str, Any]:
    arguments = {"lamp": name} if name in ("on", "dim") else {"code": "PIN-1"} if name == "enter" else {}
    action = "set_lamp" if name in ("on", "dim") else name
    return {"role": "agent", "action": action, "arguments": arguments, "code": None, **more}


def parameters(plan: Sequence[str] = PLAN) -> dict[str, Any]:
    made = [call(name) for name in plan]
    return {"machines": [DOOR], "plan": [{key: one[key] for key in ("action", "arguments")} for one in made]}


async def judge(aims: Any, calls: Sequence[Any], transcript: Any = None) -> Verdict:
    check = Check("pointing", "pointing", {})
    task = Task("t", "i", EnvironmentSpec("sites", parameters(), 0), (check,), "blake3:0")
    facts = {"calls": list(calls), "browser": {"aims": aims}}
    return (await PointingCheck().judge_world(WorldInput(task, check, facts, None, "e", transcript))).verdict


@pytest.mark.parametrize(
    ("taken", "wanted"),
    [
        (PLAN, 1),
        (["on", "visit_porter", "take_coin", "back", "enter"], 1),  # the other shortest way
        (["visit_porter", "take_coin"], 2 * 2 / (5 + 2)),
        (["visit_porter", "back", "visit_porter", "take_coin", "take_coin", "back", "on", "enter"], 2 * 5 / (5 + 8)),
        (["dim"], 0),
        ([], 0),
    ],
)
def test_a_way_is_compared_with_the_nearest_shortest_one(taken: list[str], wanted: float) -> None:
    ways = read_ways(parameters())
    assert ways is not None
    place, keys = ways.start, []
    for one in map(call, taken):
        found = ways.advance(place, one["action"], one["arguments"])
        assert found is not None
        keys.append(found[0])
        place = found[1]
    assert similarity(ways, keys) == pytest.approx(wanted)


def test_a_plan_without_a_machine_is_the_only_way() -> None:
    ways = read_ways({"services": ["shop"], "plan": [{"action": name} for name in ("find", "pay", "send")]})
    assert ways is not None
    place, keys = ways.start, []
    for name in ("find", "find", "send"):
        found = ways.advance(place, name, {})
        assert found is not None
        keys.append(found[0])
        place = found[1]
    assert ways.left(place) == 2  # what was sent before it was paid is not on the way
    assert [step.call for step in ways.due(place)] == [PlannedCall("pay")]
    assert similarity(ways, keys) == pytest.approx(2 * 2 / (3 + 3))


AIMS = [{"valid": True, "right": right, "targets": 1} for right in (None, True, True, False, True)]


async def test_the_score_is_the_mean_of_three_shares_and_never_an_outcome() -> None:
    verdict = await judge([*AIMS, {"valid": False, "right": None, "targets": 0}], map(call, PLAN[:2]))
    assert (verdict.kind, verdict.status) == ("process", "fail")
    assert verdict.score == pytest.approx((3 / 4 + 4 / 7 + 5 / 6) / 3)
    assert verdict.score == pytest.approx(181 / 252)


async def test_calls_that_no_world_could_read_are_malformed() -> None:
    calls = (ToolCall("a", "click", "{", None, "not JSON"), ToolCall("b", "click", "{}", {}))
    transcript = type("Transcript", (), {"steps": (Step(0, "agent", tool_calls=calls),)})
    verdict = await judge(AIMS, map(call, PLAN), lambda: transcript)
    assert verdict.score == pytest.approx((3 / 4 + 1 + 5 / 6) / 3)


async def test_calls_that_were_refused_before_the_world_are_malformed() -> None:
    calls = (ToolCall("a", "click", '{"bid":1}', {"bid": 1}, "bid must be text"), ToolCall("b", "click", "{}", {}))
    transcript = type("Transcript", (), {"steps": (Step(0, "agent", tool_calls=calls),)})
    verdict = await judge(AIMS, map(call, PLAN), lambda: transcript)
    assert verdict.score == pytest.approx((3 / 4 + 1 + 5 / 6) / 3)


async def test_only_a_shortest_way_without_a_wrong_act_passes() -> None:
    assert (await judge([AIMS[1]], map(call, PLAN))).status == "pass"
    assert (await judge([AIMS[1], AIMS[3]], map(call, PLAN))).status == "fail"
    assert (await judge([AIMS[1]], map(call, PLAN[:-1]))).status == "fail"


async def test_nothing_aimed_at_or_nothing_noted_is_unknown() -> None:
    for aims in ([], [AIMS[0]], None, "x"):
        verdict = await judge(aims, [])
        assert (verdict.status, verdict.score) == ("unknown", None)


async def test_refused_calls_and_odd_facts_are_passed_over() -> None:
    odd: list[Any] = [3, {"valid": "yes", "right": "no"}, {}]
    refused = [call("enter", code="conflict"), call("on", role="user"), {"action": ["enter"], "role": "agent"}]
    verdict = await judge([*odd, AIMS[1]], [*refused, *map(call, PLAN)])
    assert verdict.score == pytest.approx((1 + 1 + 1 / 3) / 3)


async def test_other_worlds_are_an_error() -> None:
    check = Check("pointing", "pointing", {})
    for bad in ({}, {"machines": [DOOR], "plan": [{"action": "enter"}]}, {"machines": [DOOR], "plan": 3}):
        task = Task("t", "i", EnvironmentSpec("sites", bad, 0), (check,), "blake3:0")
        given = WorldInput(task, check, {"calls": [], "browser": {"aims": []}}, None)
        with pytest.raises(TaskError, match="pointing"):
            await PointingCheck().judge_world(given)
