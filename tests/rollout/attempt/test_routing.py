"""Routing by step: which agent makes each step, in one state and with one history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.agents.building import build_agent
from assay.errors import AgentError, OptionError
from tests.rollout.attempt.test_branches import TRYING, adopted, pick, run

FORMS = f"family:{Path(__file__).parents[3] / 'experiments' / '_forms_world.py'}:FormTasks,n=12,seed=1"


async def test_a_router_chooses_the_agent_of_each_step_in_one_state(tmp_path: Path) -> None:
    options = {"route": f"{TRYING}:every_third"}
    made = await run(tmp_path, "cascade:random-world,expert", agent_options=options)
    for one in made:
        found = pick(one)
        assert found["routed"] == [int(step % 3 == 2) for step in range(len(one.steps))]
        assert (found["agents"], found["judge"], found["privileged"]) == (["random-world", "expert"], None, False)
        assert adopted(one)["branches"] == 1
    assert any(one.steps[0].tool_calls[0].arguments != one.steps[1].tool_calls[0].arguments for one in made)


async def test_the_expensive_agent_is_asked_only_after_an_error(tmp_path: Path) -> None:
    routed = await run(tmp_path / "a", "cascade:random-world,expert", FORMS, agent_options={"route": "after-error"})
    cheap = await run(tmp_path / "b", "random-world", FORMS)
    chosen = [expensive for one in routed for expensive in pick(one)["routed"]]
    assert 0 < sum(chosen) < len(chosen)
    for one in routed:
        errors = [bool(step.observations[0].error) for step in one.steps]
        assert pick(one)["routed"][1:] == [int(error) for error in errors[:-1]]
    assert sum(one.outcome == "pass" for one in routed) > sum(one.outcome == "pass" for one in cheap)


async def test_two_loops_share_one_history(tmp_path: Path) -> None:
    options = {"route": f"{TRYING}:every_third", "1.system": "Cheap", "2.system": "Expensive"}
    fields: dict[str, Any] = {"agent_options": options, "model": f"scripted:{TRYING}:mover_and_witness"}
    for one in await run(tmp_path, "cascade:loop,loop", **fields):
        asked = [f"{'Expensive' if number % 3 == 2 else 'Cheap'} {number}" for number in range(len(one.steps))]
        assert [step.message for step in one.steps] == asked


@pytest.mark.quick
@pytest.mark.parametrize(
    ("spelled", "options", "reason"),
    [
        ("cascade:null,expert", {"route": "after-error", "judge": "verdict"}, "give one of them"),
        ("cascade:null,expert", {"route": "sometimes"}, "take after-error"),
        ("cascade:null,command", {"route": "after-error", "2.command": "x"}, "program in the sandbox"),
    ],
)
def test_a_route_that_cannot_work_is_refused(spelled: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        build_agent(spelled, options, model="scripted:x.json")


@pytest.mark.quick
def test_a_router_that_decides_nothing_is_an_error_of_the_agent() -> None:
    agent: Any = build_agent("cascade:null,expert", {"route": f"{TRYING}:undecided"})
    with pytest.raises(AgentError, match="True for the expensive agent"):
        agent.router(None)
