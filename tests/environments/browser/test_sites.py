"""Sites of the six applications in a real Chromium: plans by pages end as by tools; nothing else is judged as done."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from assay.environments.browser.chromium import Chromium
from assay.environments.browser.pool import browser_pool
from assay.environments.browser.screen import Screen
from assay.environments.browser.site_world import SiteWorld
from assay.environments.services.plans import play
from assay.errors import UserError
from assay.records import Task
from assay.rollout.recording.screens import browsers_of
from assay.synthesis.services.family import ServiceTasks
from assay.tasks import LoadedTask
from tests.environments.services.test_applications import APPLICATIONS
from tests.environments.services.test_pages import HOSTILE, poison

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("browsers"), pytest.mark.timeout(600)]


def make_task(app: str, seed: int = 3, **options: Any) -> Task:
    return ServiceTasks(app=app, level="explicit", writes=1, interface="pages", **options).tasks(1, seed)[0]


@asynccontextmanager
async def opened(task: Task, **site: Any) -> AsyncIterator[SiteWorld]:
    world = SiteWorld({**task.environment.parameters, "site": site}, task.environment.seed)
    try:
        yield world
    finally:
        await world.close()


async def follow(world: SiteWorld) -> int:
    """Carries out the plan by pages; returns the number of acts."""
    acts = 0
    while (call := world.advice()) is not None:
        observation = await world.call(call.name, call.parsed or {})
        assert not observation.error, observation.content
        acts += 1
    return acts


@pytest.mark.parametrize("app", APPLICATIONS)
async def test_a_plan_by_pages_is_the_plan_by_tools(app: str) -> None:
    task = make_task(app)
    async with opened(task, theme=list(APPLICATIONS).index(app), pictures=False) as world:
        before = await world.digest()
        by_tools = play(world.service, world.service.plan)
        assert await follow(world) > len(world.service.plan)
        assert await world.digest() == by_tools.database.digest() != before
        assert world.service.calls == by_tools.calls
        assert world.facts()["changes"] == by_tools.facts()["changes"]


async def test_doing_nothing_and_walking_change_nothing_that_was_asked() -> None:
    task = make_task("tracker")
    async with opened(task, theme=2, pictures=False) as world:
        wanted = play(world.service, world.service.plan).database.digest()
        draw, failed = random.Random(1), 0
        for _ in range(25):
            call = world.any_act(draw)
            assert call is not None
            failed += (await world.call(call.name, call.parsed or {})).error
        assert failed < 20
        assert await world.digest() != wanted


async def test_hostile_records_harm_nothing() -> None:
    """Script and instructions in every field of the shop: they stand on the page as text, and run nowhere."""
    task = make_task("shop")
    async with opened(task, theme=1) as world:
        assert poison(world.service) > 100
        screens: list[Screen] = []
        world.on_screen = screens.append
        await follow(world)
        page = "http://shop.test/shop/search_customers?_form=1&f-text="
        shown = (await world.call("goto", {"url": page})).content
        assert not any("dialog" in note or "not served" in note for note in shown.splitlines()[:6])
        trees = "".join(screen.tree for screen in screens) + shown
        assert "<script>alert(1)</script>" in trees
        assert HOSTILE not in shown.splitlines()
        assert all(screen.image is not None and screen.image[8:12] == b"WEBP" for screen in screens)


async def test_two_attempts_of_one_task_see_the_same_pages() -> None:
    task, seen = make_task("mail"), list[list[Screen]]()
    for _ in range(2):
        async with opened(task, theme=5) as world:
            screens: list[Screen] = []
            world.on_screen = screens.append
            await follow(world)
            seen.append(screens)
    one, other = seen
    assert [(screen.url, screen.tree) for screen in one] == [(screen.url, screen.tree) for screen in other]
    assert [at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a.image != b.image or a.image is None] == []


async def test_pages_that_were_not_kept_are_named_lost_in_each_later_state_and_messages_stay() -> None:
    task = make_task("bank")
    async with opened(task, theme=3, pictures=False) as world, opened(task, theme=3, pictures=False) as other:
        assert not (await world.call("send_msg_to_user", {"text": "done so far"})).error
        state = msgspec.json.decode(world.snapshot())
        other.restore(msgspec.json.encode({**state, "pages": None}))  # as of a tab that crashed
        await other.open()
        async with opened(task, theme=3, pictures=False) as third:
            third.restore(other.snapshot())
            assert third.snapshot() == other.snapshot()
            await third.open()
            for one in (other, third):
                assert "the pages" in one.facts()["browser"]["lost"]
                assert one.facts()["browser"]["messages"] == world.facts()["browser"]["messages"] != []
        for pages in ({**state["pages"], "current": 4}, {**state["pages"], "tabs": []}):
            with pytest.raises(ValueError, match="not a state of a site"):
                SiteWorld(task.environment.parameters, task.environment.seed).restore(
                    msgspec.json.encode({**state, "pages": pages})
                )


async def test_a_restored_site_goes_on_where_it_was() -> None:
    task = make_task("bank")
    async with opened(task, theme=3, pictures=False) as world, opened(task, theme=3, pictures=False) as other:
        for _ in range(4):
            call = world.advice()
            assert call is not None
            await world.call(call.name, call.parsed or {})
        calls = len(world.service.calls)
        other.restore(world.snapshot())
        assert await other.digest() == await world.digest()
        assert other.snapshot() == world.snapshot()  # before the browser is open, too
        assert other.facts()["browser"]["url"] == world.facts()["browser"]["url"]
        assert other.facts()["browser"]["requests"] == world.facts()["browser"]["requests"]
        await other.open()
        assert len(other.service.calls) == calls  # nothing was replayed
        assert other.facts()["browser"]["requests"] == world.facts()["browser"]["requests"]
        assert "forms and scroll positions of earlier pages in the history" in other.facts()["browser"]["lost"]
        while (call := world.advice()) is not None:
            again = other.advice()
            assert again is not None
            assert (again.name, again.parsed) == (call.name, call.parsed)
            one, two = await world.call(call.name, call.parsed or {}), await other.call(call.name, call.parsed or {})
            assert one.content == two.content
        assert other.advice() is None
        requests = world.facts()["browser"]["requests"]
        assert requests == other.facts()["browser"]["requests"]
        assert requests["count"] == len(requests["last"]) > 3
        assert {(one["method"], one["status"]) for one in requests["last"]} >= {("GET", 200), ("POST", 303)}
        assert all(one.get("data") for one in requests["last"] if one["method"] == "POST")
        assert other.facts()["changes"] == world.facts()["changes"]
        with pytest.raises(ValueError, match="open a new world"):
            other.restore(world.snapshot())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"site": {"theme": "blue"}}, "known options: .*theme, observe"),
        ({"site": {"skin": 1}}, "known options: .*theme, observe"),
        ({"shop": 1}, "known options: services"),
        ({"services": []}, "A world needs a service"),
    ],
)
def test_wrong_options_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SiteWorld({"services": ["shop"], **parameters}, 0)


async def test_without_a_browser_a_run_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.environments.browser.chromium.PROGRAMS", ())
    with pytest.raises(UserError, match="install the package chromium-headless-shell"):
        async with browsers_of([LoadedTask(make_task("shop"), None)]):
            pytest.fail("the run began")


def test_an_event_loop_that_ends_leaves_no_browser() -> None:
    """Such as that of a command that does the acts of a record again."""

    async def lease_one() -> Chromium:
        lease = await browser_pool().lease()
        await lease.release()
        return lease.browser

    loop = asyncio.new_event_loop()
    try:
        browser = loop.run_until_complete(lease_one())
        assert browser.is_open
        loop.run_until_complete(loop.shutdown_asyncgens())
        assert browser.connection.failure == "it was closed"
        assert not browser.is_open
    finally:
        loop.close()
