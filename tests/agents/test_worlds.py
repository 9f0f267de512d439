"""Agents in text worlds: they stop where the world does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay.agents.calls import CallsAgent
from assay.agents.expert import ExpertAgent
from assay.agents.loop import LoopAgent
from assay.agents.oracle import OracleAgent
from assay.agents.random_world import RandomWorldAgent
from assay.agents.testing import FakeAttempt, FakeTools
from assay.environments.worlds.grid import Grid
from assay.environments.worlds.played import PlayedWorld, as_call
from assay.errors import LimitReached, TaskError
from assay.gateway.backends.scripted import Reply, ScriptedBackend, ScriptedCall
from assay.records import ToolCall
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore

pytestmark = pytest.mark.quick


def attempt(seed: int = 4, **config: Any) -> FakeAttempt:
    return FakeAttempt(tools=PlayedWorld(Grid(config, seed)))


def facts(made: FakeAttempt) -> dict[str, Any]:
    assert isinstance(made.tools, PlayedWorld)
    return made.tools.facts()


@pytest.mark.parametrize("agent", [OracleAgent(), ExpertAgent()])
async def test_who_knows_the_way_takes_the_shortest(agent: Any) -> None:
    made = attempt(walls=4)
    await agent.run(made)
    assert made.ended == "the world came to its end"
    assert len(made.steps) == facts(made)["shortest"] == facts(made)["turns"]


async def test_a_loop_does_not_ask_its_model_once_the_world_is_over() -> None:
    backend = ScriptedBackend([Reply(tool_calls=(ScriptedCall("claim", "{}"),)), "asked once too often"])
    made = FakeAttempt(backend=backend, tools=PlayedWorld(Grid({"shortcut": True}, 4)))
    await LoopAgent().run(made)
    assert (len(made.calls), made.ended) == (1, "the world came to its end")


async def test_calls_after_the_end_are_not_made() -> None:
    made = attempt(shortcut=True)
    await CallsAgent("calls", [as_call(("claim", {}), 0), as_call(("move", {"direction": "up"}), 1)]).run(made)
    assert len(made.steps) == 1
    assert made.evidence[0].kind == "world_ended"


async def test_in_one_step_what_follows_the_end_is_an_error_and_no_part_of_the_episode() -> None:
    made = attempt(shortcut=True)
    calls = [as_call(("claim", {}), 0), as_call(("move", {"direction": "up"}), 1)]
    seen = await made.act(calls)
    assert [one.error for one in seen] == [False, True]
    assert isinstance(made.tools, PlayedWorld)
    assert made.tools.episode()["rewards"] == [1.0]


async def test_the_same_seed_acts_at_random_alike_until_the_budget_is_spent() -> None:
    steps = []
    for _ in range(2):
        made = attempt(solvable=False)
        with pytest.raises(LimitReached, match="turns"):
            await RandomWorldAgent().run(made)
        steps.append([step.tool_calls for step in made.steps])
    assert steps[0] == steps[1]
    assert len(steps[0]) == 8


@pytest.mark.parametrize("agent", [ExpertAgent(), RandomWorldAgent()])
async def test_elsewhere_it_is_told_that_there_is_no_world(agent: Any) -> None:
    with pytest.raises(TaskError, match="text worlds alone"):
        await agent.run(FakeAttempt(tools=FakeTools({})))


async def test_a_world_without_a_way_has_no_oracle_to_play() -> None:
    with pytest.raises(TaskError, match="offers no solution from the initial state"):
        await OracleAgent().run(attempt(solvable=False))


@pytest.mark.parametrize("arguments", [{"direction": "north"}, {}, {"direction": "up", "far": 1}])
async def test_a_malformed_act_costs_a_turn_and_moves_nobody(arguments: dict[str, Any]) -> None:
    made = attempt()
    before = await made.tools.digest()
    (seen,) = await made.act([ToolCall("1", "move", "", arguments)])
    assert (seen.error, await made.tools.digest(), facts(made)["turns"]) == (True, before, 1)


class Peeker:
    """Follows the world's advice, and declares nothing."""

    name = "peeker"
    needs_model = False

    async def run(self, attempt: Any) -> None:
        while attempt.ended is None:
            await attempt.act([attempt.tools.advice()])


class DeclaredPeeker(Peeker):
    name = "declared"
    takes_advice = True


@pytest.mark.parametrize(("agent", "ends"), [("Peeker", ("agent", "fail")), ("DeclaredPeeker", (None, "pass"))])
async def test_agent_that_declares_nothing_is_not_told_what_the_verifier_knows(
    tmp_path: Path, agent: str, ends: tuple[str | None, str]
) -> None:
    config = RunConfig(tasks=("family:grid,n=1,size=4",), agent=f"{__file__}:{agent}", run="r")
    await start_run(config, Settings(tmp_path / "cache", tmp_path / "store"), Tally())
    with RunStore.open(tmp_path / "store", "r") as store:
        (row,) = store.attempts()
    assert (row.broke, row.outcome) == ends
