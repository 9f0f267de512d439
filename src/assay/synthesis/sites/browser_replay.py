"""Carries the plans of tasks out in a real browser: its pages must offer all of it, and end in the same state."""

from __future__ import annotations

from collections.abc import Sequence

from assay.environments.browser.pool import close_browsers
from assay.environments.browser.site_world import SiteWorld
from assay.environments.services.plans import play
from assay.environments.services.world import ServiceWorld
from assay.errors import EnvironmentFailure
from assay.records import Task


async def replay_in_browser(tasks: Sequence[Task]) -> dict[str, str]:
    """Returns what went wrong by the id of the task; tasks whose plan ends as it does by tools are absent.

    Raises:
        UserError: Chromium's headless shell is not installed, or no sandbox works here.
    """
    problems: dict[str, str] = {}
    try:
        for task in tasks:
            problem = await _replay(task)
            if problem:
                problems[task.id] = problem
    finally:
        await close_browsers()
    return problems


async def _replay(task: Task) -> str:
    world = SiteWorld(task.environment.parameters, task.environment.seed)
    by_tools = ServiceWorld(task.environment.parameters, task.environment.seed)
    try:
        while (act := world.advice()) is not None:
            observation = await world.call(act.name, act.parsed or {})
            if observation.error:
                return f"{act.name}: {observation.content[:200]}"
        done = play(by_tools, by_tools.plan)
        return "" if await world.digest() == done.database.digest() else "it ends in another state than by tools"
    except EnvironmentFailure as exc:
        return str(exc)
    finally:
        await world.close()
        await by_tools.close()
