from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from assay.agents.conformance import check_agent
from assay.agents.interface import Prior
from assay.agents.loop import LoopAgent
from assay.agents.null import NullAgent
from assay.agents.oracle import OracleAgent
from assay.agents.random_shell import RandomShellAgent
from assay.agents.replay import ReplayAgent
from assay.agents.testing import FakeAttempt, FakeTools, FakeWorkspace, fake_task
from assay.gateway.backends.scripted import Reply, ScriptedBackend, ScriptedCall
from assay.records import Limits, Oracle, Step, ToolCall

pytestmark = pytest.mark.quick
REPLIES = [Reply(tool_calls=(ScriptedCall("f"),)), Reply(tool_calls=(ScriptedCall("finish", {"message": "done"}),))]


def attempt(seed: int, limits: Limits) -> FakeAttempt:
    return FakeAttempt(
        task=fake_task(limits=limits, oracle=Oracle(("true",))),
        seed=seed,
        backend=ScriptedBackend(REPLIES),
        tools=FakeTools({"f": lambda a: "yes"}),
        workspace=FakeWorkspace(),
        prior=Prior((Step(0, "agent", tool_calls=(ToolCall("a", "f", "{}", {}),)),)),
    )


@pytest.mark.parametrize("kind", [OracleAgent, NullAgent, ReplayAgent, RandomShellAgent, LoopAgent])
async def test_our_agents_keep_the_contract(kind: Any) -> None:
    assert [finding for finding in await check_agent(kind, attempt) if finding.problem] == []


class Careless:
    name = ""
    needs_model = False
    count = 0

    async def run(self, attempt: Any) -> None:
        for _ in range(random.SystemRandom().randrange(1, 10**6) % 2 + 1):
            self.count += 1
            await asyncio.sleep(0)
            await attempt.shell(f"echo {self.count} {random.SystemRandom().random()}")


class Stubborn:
    name = "stubborn"
    needs_model = False

    async def run(self, attempt: Any) -> None:
        while True:
            await asyncio.sleep(0.001)


async def test_careless_agents_are_found_out() -> None:
    found = {finding.name: finding.problem for finding in await check_agent(Careless, attempt)}
    assert "not empty" in (found["agent_is_named"] or "")
    assert "finish" in (found["agent_says_when_it_is_done"] or "")
    assert "one seed gave two" in (found["seed_decides"] or "")
    assert found["limits_stop_it"] is None


async def test_an_agent_that_never_ends_is_found_out() -> None:
    found = {finding.name: finding.problem for finding in await check_agent(Stubborn, attempt, timeout_s=0.05)}
    assert "TimeoutError" in (found["limits_stop_it"] or "")
