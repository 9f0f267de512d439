"""A walk over pages: whole acts, the ones tried least first, without a wish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from assay.agents.page_walker import PageWalkerAgent
from assay.agents.testing import FakeAttempt, FakeTools, fake_task
from assay.environments.browser.pool import close_browsers
from assay.environments.browser.site_world import SiteWorld
from assay.errors import TaskError
from tests.environments.services.test_machines import DOOR
from tests.optional import require_browser


async def walk(seed: int, acts: int) -> tuple[list[tuple[str, Mapping[str, Any]]], list[str]]:
    """Returns the calls of a walk, and the actions of the site that it did."""
    world = SiteWorld({"machines": [DOOR], "site": {"theme": 1, "pictures": False}}, 5)
    attempt = FakeAttempt(task=fake_task("Look around."), tools=world, seed=seed)
    try:
        await PageWalkerAgent(acts=acts).run(attempt)
        calls = [(call.name, call.parsed or {}) for step in attempt.steps for call in step.tool_calls]
        return calls, [call.action for call in world.service.calls if call.code is None]
    finally:
        await world.close()


@pytest.mark.long
async def test_a_walk_does_what_the_site_offers_and_repeats_itself_by_its_seed() -> None:
    require_browser()
    try:
        calls, actions = await walk(3, 14)
        assert await walk(3, 14) == (calls, actions)
        assert (await walk(4, 14))[0] != calls
    finally:
        await close_browsers()
    assert calls[0] == ("read_page", {})
    assert {"visit_porter", "set_lamp"} <= set(actions)


async def test_other_environments_are_refused() -> None:
    with pytest.raises(TaskError, match="walks over sites in a browser alone"):
        await PageWalkerAgent().run(FakeAttempt(tools=FakeTools({})))
