"""Files in pages, in a real Chromium: chosen by name, sent by forms, kept in states, and served without running."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from typing import Any

import pytest
from blake3 import blake3

from assay.environments.browser.site_world import SiteWorld
from assay.environments.services.files import MOST_FILE, File, FileStore
from assay.environments.services.plans import play
from assay.records import Observation, Task
from assay.synthesis.services.family import ServiceTasks

from .conftest import OpenPages
from .test_sites import follow, opened

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("browsers"), pytest.mark.timeout(600)]
SCRIPT = "<!doctype html><title>bad</title><script>document.title='run'</script>"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>document.documentElement.id="run"</script></svg>'
ISSUE = "http://tracker-attachments-files.test/attachments/attach_file"
FILES = [
    {"name": "a.log", "text": "first\n"},
    {"name": "page.html", "text": SCRIPT},
    {"name": "picture.svg", "text": SVG},
    {"name": "tool.bin", "base64": base64.b64encode(b"\0\1\2").decode()},
    {"name": "large.txt", "text": "x" * MOST_FILE},
]


def make_tasks(n: int) -> tuple[Task, ...]:
    family = ServiceTasks(app="tracker+attachments", level="explicit", writes=1, files=True, interface="pages")
    return family.tasks(n, 1)


def open_world() -> SiteWorld:
    services = {"services": ["tracker", "attachments"], "knobs": {"files": {"files": FILES}}}
    return SiteWorld({**services, "site": {"theme": 4, "pictures": False}}, 3)


def number_of(world: SiteWorld, name: str) -> str:
    assert world._tools is not None
    elements = world._tools.context.current_tab().numbering.elements
    return str(next(number for number, one in elements.items() if one.node.attributes.get("name") == name))


async def send_with(world: SiteWorld, *acts: tuple[str, dict[str, Any]]) -> Observation:
    """Does acts on the page to attach a file, sends its form, and says yes where it asks."""
    await world.call("goto", {"url": ISSUE})
    for name, arguments in acts:
        found = await world.call(name, {**arguments, "bid": number_of(world, arguments["bid"])})
        assert not found.error, found.content
    return await send(world)


async def send(world: SiteWorld) -> Observation:
    assert world._tools is not None
    shown = Observation("")
    for _ in range(2):
        elements = world._tools.context.current_tab().numbering.elements
        buttons = [
            (number, one.node)
            for number, one in elements.items()
            if one.node.r == "button" and one.node.attributes.get("type") != "file" and "form" in one.node.attributes
        ]
        if not buttons:
            break
        number, _ = next((one for one in buttons if one[1].t in ("Yes", "Confirm")), buttons[0])
        shown = await world.call("click", {"bid": str(number)})
    return shown


@pytest.mark.parametrize("theme", [0, 1, 4])
async def test_a_plan_with_a_file_by_pages_is_the_plan_by_tools(theme: int) -> None:
    for task in make_tasks(2):
        async with opened(task, theme=theme, pictures=False) as world:
            by_tools = play(world.service, world.service.plan)
            await follow(world)
            assert world.service.calls == by_tools.calls
            assert await world.digest() == by_tools.database.digest()
            assert world.facts()["changes"] == by_tools.facts()["changes"] != []
            sent = [one for one in world.facts()["browser"]["requests"]["last"] if one["method"] == "POST"][-1]
            assert any(value.endswith(by_tools.calls[-1].arguments["file"]) for _, value in sent["data"])


async def test_chosen_files_are_in_the_tree_and_in_a_fork() -> None:
    (task,) = make_tasks(1)
    async with opened(task, theme=0, pictures=False) as world, opened(task, theme=0, pictures=False) as other:
        while (call := world.advice()) is not None and call.name != "upload_file":
            await world.call(call.name, call.parsed or {})
        assert call is not None
        shown = (await world.call(call.name, call.parsed or {})).content
        name = world.service.plan[-1].arguments["file"]
        assert f'value="{name}"' in shown
        other.restore(world.snapshot())
        assert (await other.call("read_page", {})).content == shown
        assert "chosen files" not in other.facts()["browser"]["lost"]
        await follow(other)
        await follow(world)
        assert await other.digest() == await world.digest()
        assert other.service.calls == world.service.calls


async def test_only_files_of_the_world_can_be_chosen() -> None:
    world = open_world()
    try:
        await world.call("goto", {"url": ISSUE})
        bid = number_of(world, "f-file")
        for name in ("/etc/passwd", "../a.log", "file:///etc/passwd", ""):
            refused = await world.call("upload_file", {"bid": bid, "file": name})
            assert refused.error
            assert "paths are not taken. Files: a.log, large.txt, page.html, picture.svg, tool.bin" in refused.content
        two = await world.call("upload_file", {"bid": bid, "file": ["a.log", "page.html"]})
        assert two.content == f"The element [{bid}] takes one file at a time."
        wrong = await world.call("upload_file", {"bid": number_of(world, "f-issue_id"), "file": "a.log"})
        assert "is not a file field (input)" in wrong.content
        clicked = await world.call("click", {"bid": bid})
        assert not clicked.error  # no file chooser opens
    finally:
        await world.close()


async def test_a_file_of_a_wrong_type_is_refused_and_a_large_one_is_whole() -> None:
    world = open_world()
    issue = world.service.database.connection.execute("SELECT id FROM tracker_issues").fetchone()[0]
    try:
        fill = ("fill", {"bid": "f-issue_id", "value": issue})
        refused = await send_with(world, fill, ("upload_file", {"bid": "f-file", "file": "tool.bin"}))
        assert "which is not taken here" in refused.content
        await send_with(world, fill, ("upload_file", {"bid": "f-file", "file": "large.txt"}))
        (row,) = world.facts()["changes"]
        assert (row["after"]["name"], row["after"]["size"]) == ("large.txt", MOST_FILE)
        found = FileStore(world.service).content_of(row["after"]["digest"])
        assert found is not None
        assert found.content == b"x" * MOST_FILE
    finally:
        await world.close()


@pytest.mark.parametrize("name", ["page.html", "picture.svg"])
async def test_a_script_in_a_file_does_not_run(name: str) -> None:
    world = open_world()
    try:
        await world.call("read_page", {})
        digest = next(row[1] for row in world.service.database.rows(world.service.tables[File]) if row[0] == name)
        shown = await world.call("goto", {"url": f"/-/files/{digest}"})
        assert "run'" in shown.content or 'run\\"' in shown.content  # its source, as text
        assert 'Page: ""' in shown.content
        assert "[" not in shown.content.splitlines()[-1]
        picture = await world.call("goto", {"url": f"/-/files/{'0' * 64}"})
        assert "No file has this content" in picture.content
    finally:
        await world.close()


async def test_a_walker_chooses_files() -> None:
    world, draw = open_world(), random.Random(0)
    try:
        await world.call("goto", {"url": ISSUE})
        acts = [world.any_act(draw) for _ in range(200)]
        files = {(act.parsed or {})["file"] for act in acts if act is not None and act.name == "upload_file"}
        assert files <= {one["name"] for one in FILES}
        assert files
    finally:
        await world.close()


PAGE = """<title>Own</title><form><label>File <input type=file name=a multiple></label></form><script>
addEventListener('change', (event) => {
  document.title = [...event.target.files].map((file) => file.name + file.size + file.type).join();
  const own = new DataTransfer();
  own.items.add(new File(['other'], 'own.txt'));
  if (event.target.files.length === 1) event.target.files = own.files;
});</script>"""


async def test_files_that_a_page_chose_itself_are_lost(pages: OpenPages) -> None:
    tools = await pages({"/": PAGE})
    tools.context.files = FileStore(open_world().service)
    both = (await tools.call("upload_file", {"bid": "1", "file": ["a.log", "page.html"]})).content
    assert "a.log6text/plain,page.html" in both.splitlines()[0]
    tab = tools.context.current_tab()
    assert "chosen files" not in tab.content["lost"]
    chosen = [["a.log", blake3(b"first\n").hexdigest()], ["page.html", blake3(SCRIPT.encode()).hexdigest()]]
    assert tab.content["files"] == [[0, "a", chosen]]
    await tools.call("upload_file", {"bid": "1", "file": "a.log"})
    assert "chosen files" in tab.content["lost"]


def huge_picture(side: int) -> bytes:
    """Returns a PNG picture of one colour, whose pixels take a thousand times its bytes and more."""
    row = b"\0" * (side // 8 + 1)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(row * side, 9)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


async def test_a_picture_that_is_too_large_ends_no_other_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.environments.browser.tab.SCRIPT_S", 5.0)
    picture = huge_picture(12_000)
    assert len(picture) < MOST_FILE
    files = [{"name": "large.png", "base64": base64.b64encode(picture).decode()}]
    services = {"services": ["tracker", "attachments"], "knobs": {"files": {"files": files}}}
    hostile, other = (SiteWorld({**services, "site": {"theme": 4}}, 3) for _ in range(2))
    hostile.on_screen = lambda _: None  # so that pictures are taken
    try:
        await other.call("goto", {"url": ISSUE})
        shown = await hostile.call("goto", {"url": f"{hostile.home}-/files/{blake3(picture).hexdigest()}"})
        assert shown.error  # as its tab does not answer
        assert not (await other.call("read_page", {})).error
        assert not (await hostile.call("new_tab", {})).error
    finally:
        await hostile.close()
        await other.close()


async def test_a_chosen_file_is_in_a_fork_as_it_was_chosen() -> None:
    async def put(text: str) -> None:
        assert (await world.site._served.call("put_file", {"name": "mine.log", "text": text})).code is None

    world, other = open_world(), open_world()
    issue = world.service.database.connection.execute("SELECT id FROM tracker_issues").fetchone()[0]
    try:
        await put("first")
        await world.call("goto", {"url": ISSUE})
        await world.call("fill", {"bid": number_of(world, "f-issue_id"), "value": issue})
        await world.call("upload_file", {"bid": number_of(world, "f-file"), "file": "mine.log"})
        await put("other")  # of the same name and size
        await world.call("read_page", {})
        other.restore(world.snapshot())
        for one in (world, other):
            await one.call("read_page", {})
            await send(one)
        assert "chosen files" not in other.facts()["browser"]["lost"]
        assert other.facts()["changes"] == world.facts()["changes"] != []
    finally:
        await world.close()
        await other.close()
