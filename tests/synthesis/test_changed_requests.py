"""Tasks whose person changes the request: the changed plan passes, the first one fails, and doing both fails."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any

import msgspec
import pytest

from assay.environments.services.disturbances.world import DisturbedWorld
from assay.environments.services.plans import PlannedCall
from assay.environments.worlds.opening import open_world
from assay.errors import UserError
from assay.records import Task, VerdictStatus
from assay.synthesis.services.family import ServiceTasks
from assay.verify.interface import WorldInput
from assay.verify.state_check import StateCheck
from scripts.make_reference import ROOT

APP = f"{ROOT}/docs_src/bike_service.py:bikes"


@cache
def made() -> tuple[Task, ...]:
    return ServiceTasks(app=APP, changed=True, writes=1).tasks(3, 1)


def opened(task: Task) -> DisturbedWorld:
    world: Any = open_world(task.environment)
    assert isinstance(world, DisturbedWorld)
    return world


def status(task: Task, world: DisturbedWorld) -> VerdictStatus:
    return asyncio.run(StateCheck().judge_world(WorldInput(task, task.checks[0], world.facts(), None))).verdict.status


def test_the_changed_plan_passes_and_comes_after_the_message() -> None:
    assert len(made()) == 3
    for task in made():
        world = opened(task)
        answers = [world.act(call.name, call.parsed or {}) for call in world.oracle()]
        assert status(task, world) == "pass"
        (stopped,) = [one.content for one in answers if one.error]
        assert "Please do not" in stopped
        assert world.facts()["disturbances"][0]["told"] > 0
        plan = msgspec.convert(task.environment.parameters["plan"], tuple[PlannedCall, ...])
        assert "changed" in task.tags
        assert len(answers) == len(plan) + 1


def test_the_first_request_alone_or_beside_the_other_fails() -> None:
    for task in made():
        text = task.environment.parameters["wrap"][0]["text"]
        assert (
            text.split(" Instead,")[0].removeprefix("Please do not ").rstrip(".").lower()
            in str(task.instruction).lower()
        )
        world = opened(task)
        for call in world.oracle():
            world.act(call.name, call.parsed or {})
        for other in ("rent_bike", "report_broken"):
            for bike in json.loads(world.act("search_bikes", {"text": "", "limit": 50}).content):
                fork = world.fork()
                if not fork.act(other, {"bike_id": bike["id"]}).error and fork.changes() != world.changes():
                    assert status(task, fork) == "fail"


@pytest.mark.parametrize("options", [{"kind": "question"}, {"kind": "possible+impossible"}])
def test_what_cannot_be_changed_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(UserError, match="changed=true"):
        ServiceTasks(app=APP, changed=True, **options)
