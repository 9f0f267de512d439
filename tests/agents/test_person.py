"""A person's browsing is recorded: their part is played by input events in another Chromium, on the person's page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.agents.person import PersonAgent, describe
from assay.agents.testing import FakeAttempt, FakeTools, fake_task
from assay.environments.browser.context import BrowserContext
from assay.environments.browser.page_moves import MoveReader
from assay.environments.browser.page_text import PageView, read_view
from assay.environments.browser.pool import browser_pool, close_browsers
from assay.environments.browser.site_world import SiteWorld
from assay.environments.browser.tools import BrowserTools
from assay.errors import TaskError
from assay.http.messages import RequestHead, Response
from tests.environments.services.test_machines import DOOR
from tests.optional import require_browser

from .test_page_search import TREE


async def request(address: str, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    """Sends a request over a socket; returns status and body."""
    host, _, key = address.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    sent = {"Host": host, "Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = "".join(f"{key}: {value}\r\n" for key, value in sent.items())
    writer.write(f"{method} /{key}{path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
    data = await reader.read()
    writer.close()
    head, _, rest = data.partition(b"\r\n\r\n")
    if b"chunked" in head.lower():
        raise AssertionError("bodies are sent whole")
    return int(head.split(b" ", 2)[1]), rest


@asynccontextmanager
async def recorded(tmp_path: Path, **options: Any) -> AsyncIterator[tuple[FakeAttempt, str, asyncio.Task[None]]]:
    """Yields an attempt of a person at a door with a lamp, the address of their page, and the agent at work."""
    require_browser()
    world = SiteWorld({"machines": [DOOR], "site": {"theme": 5}}, 5)
    attempt = FakeAttempt(task=fake_task("Light the lamp."), tools=world)
    file = tmp_path / "address"
    agent = asyncio.ensure_future(PersonAgent(address_file=str(file), **options).run(attempt))
    try:
        while not (file.exists() and file.read_text()):
            if agent.done():
                await agent
            await asyncio.sleep(0.02)
        yield attempt, file.read_text(), agent
        await asyncio.wait_for(agent, 20)
    finally:
        agent.cancel()
        await world.close()
        await close_browsers()


@asynccontextmanager
async def opened_by_a_person(address: str) -> AsyncIterator[BrowserTools]:
    """Yields a browser of the person's own, on their page."""

    async def serve(origin: str, head: RequestHead, body: bytes) -> Response | None:
        path = head.target.removeprefix(f"/{address.split('/')[3]}/")
        kind = {"": "text/html; charset=utf-8", "state": "application/json"}.get(path.partition("?")[0], "image/webp")
        kind = "application/json" if path == "act" else kind
        status, found = await request(address, head.method, path, body)
        return Response(status, found, {"Content-Type": kind})

    home = address
    context = await BrowserContext.open(await browser_pool().lease(), serve, 1320, 1200)
    tools = BrowserTools(context, home)
    try:
        await tools.open_home()
        yield tools
    finally:
        await context.close()


async def see(person: BrowserTools, words: str) -> PageView:
    """Returns the person's page once it shows some words."""
    for _ in range(200):
        seen = await person.call("read_page", {})
        if words in seen.content:
            return read_view(seen.content)
        await asyncio.sleep(0.05)
    raise AssertionError(f"{words!r} is not in {seen.content}")


async def press(person: BrowserTools, name: str, words: str) -> PageView:
    """Clicks a control of the person's page as a mouse does, and returns the page once it shows some words."""
    view = await see(person, json.dumps(name))
    bid = next(part.number for part in view.parts if part.name == name and part.role in ("button", "select"))
    seen = await person.call("click", {"bid": bid})
    assert not seen.error, seen.content
    return await see(person, words)


@pytest.mark.long
async def test_what_a_person_does_with_mouse_and_keys_is_recorded_as_acts(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (attempt, address, _), opened_by_a_person(address) as person:
        await see(person, "Light the lamp.")
        await press(person, "Door", '"On"')
        await press(person, "On", '"On"')
        view = await press(person, "Set lamp", '"On"')
        code = next(part.number for part in view.parts if part.name == "Code")
        assert not (await person.call("fill", {"bid": code, "value": "PIN-1"})).error
        assert not (await person.call("press", {"bid": code, "key_comb": "Enter"})).error
        await see(person, '"http://door.test/door/enter"')
        difference = attempt.tools.service.facts()["difference"]  # type: ignore[attr-defined]
        await press(person, "I am done", "has ended")
    calls = [call for step in attempt.steps for call in step.tool_calls]
    assert [call.name for call in calls] == ["read_page", "click", "click", "click", "fill", "press"]
    assert difference == ["progress 1: lamp off -> on"]
    assert "This needs coins" in attempt.steps[-1].observations[0].content
    assert attempt.ended == "the person says that it is done"
    reader = MoveReader()  # as `assay synth site` reads recordings
    for step in attempt.steps:
        reader.read(step.tool_calls[0].name, step.tool_calls[0].parsed or {}, step.observations[0].content)
    assert [move.act.label for move in reader.moves] == ["Door", "Set lamp", "Enter"]
    assert (reader.moves[1].act.texts, dict(reader.others)) == ((("Lamp", "On"),), {})
    data: Mapping[str, Any] = {one.kind: one.data for one in attempt.evidence}
    assert [one["trusted"] for one in data["person_input"]["inputs"]] == [True] * 5
    completed = data["completed"]["steps"]
    assert [one["by"] for one in completed] == ["recorder", *["person"] * 5]
    assert completed[2]["text"] == "Clicks “On” of the radio “Lamp” on the page “Hall”."


@pytest.mark.long
async def test_only_the_persons_own_page_may_act(tmp_path: Path) -> None:
    async with recorded(tmp_path) as (attempt, address, _):
        host = address.split("/")[2]
        act = b'{"name": "click", "arguments": {"bid": "1"}}'
        for path, headers in (("act", {"Origin": "http://evil.test"}), ("act", {"Host": "evil.test"})):
            assert (await request(address, "POST", path, act, **headers))[0] == 403
        assert (await request(f"http://{host}/wrong-key/", "GET", "state"))[0] == 404
        for body in (b"{", b'{"name": "goto", "arguments": {"url": "/"}}', b'{"name": "click", "x": 1}'):
            assert (await request(address, "POST", "act", body))[0] == 400
        assert (await request(address, "POST", "act", b"x" * (1 << 19)))[0] == 413
        assert len(attempt.steps) == 1
        status, state = await request(address, "POST", "act", b'{"name": "click", "arguments": {"bid": "999"}}')
        assert (status, json.loads(state)["problem"][:24]) == (200, "The page has no element ")
        assert (await request(address, "POST", "act", b'{"name": "done"}'))[0] == 200


@pytest.mark.long
async def test_a_person_who_goes_away_ends_the_recording(tmp_path: Path) -> None:
    async with recorded(tmp_path, wait_s=0.3) as (attempt, _, agent):
        await asyncio.wait_for(agent, 20)
    assert attempt.ended == "nothing came from the person for some time"


async def test_other_environments_are_refused() -> None:
    with pytest.raises(TaskError, match="shows pages to a person"):
        await PersonAgent().run(FakeAttempt(tools=FakeTools({})))


def test_an_act_is_described_from_the_tree_before_it() -> None:
    view = read_view(TREE)
    assert describe("fill", {"bid": "5", "value": "PIN-1"}, view) == (
        "Writes “PIN-1” into the textbox “Code” on the page “Hall”."
    )
    assert describe("click", {"bid": "7"}, view) == "Clicks the link “Elsewhere” on the page “Hall”."
    assert describe("go_back", {}, None) == "Goes back to the page before."
