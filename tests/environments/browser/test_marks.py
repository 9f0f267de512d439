"""Pictures with marks, in a real Chromium: marks stand where elements are, and the page holds no trace of them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from assay.environments.browser.marks import Mark, Rectangle, place_marks, take_marked_picture
from assay.environments.browser.picture_options import PictureOptions
from assay.environments.browser.screen import Screen
from assay.environments.browser.tab import Tab
from assay.environments.browser.tools import BrowserTools
from assay.rollout import RunConfig, Tally, start_run
from assay.rollout.recording.screens import SCREEN
from assay.settings import Settings
from assay.store import RunStore

from .conftest import OpenPages
from .test_acts import act, number
from .test_sites import follow, make_task, opened

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("browsers"), pytest.mark.timeout(600)]
PAGE = """<title>Marks</title><style>body{margin:40px;font:16px sans-serif}</style><main>
<button style="position:absolute;left:60px;top:80px;width:120px;height:40px">One</button>
<a href="/" style="position:absolute;left:300px;top:90px">Two</a>
<input type=checkbox aria-label=Three style="position:absolute;left:500px;top:90px">
<button style="position:absolute;left:60px;top:200px;width:90px;height:30px">Covered</button>
<div style="position:absolute;left:50px;top:190px;width:150px;height:60px;background:#eee"></div>
<button style="position:absolute;left:760px;top:300px;width:90px;height:30px">Edge</button>
<button style="position:absolute;left:60px;top:2000px">Below</button></main>
<script>
const kinds = {subtree: true, childList: true, attributes: true, characterData: true};
window.changes = 0;
new MutationObserver((seen) => { changes += seen.length; }).observe(document, kinds);
</script>"""
COMPARE = """async (one, other, allowed) => {
  const read = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes]));
    const pen = new OffscreenCanvas(image.width, image.height).getContext('2d');
    pen.drawImage(image, 0, 0);
    return pen.getImageData(0, 0, image.width, image.height);
  };
  const a = await read(one), b = await read(other), inside = allowed.map(() => 0);
  let outside = 0;
  for (let at = 0; at < a.data.length; at += 4) {
    if ([0, 1, 2].every((part) => a.data[at + part] === b.data[at + part])) continue;
    const x = at / 4 % a.width, y = Math.floor(at / 4 / a.width);
    let found = false;
    allowed.forEach(([left, top, width, height], index) => {
      if (x >= left && x < left + width && y >= top && y < top + height) { inside[index]++; found = true; }
    });
    if (!found) outside++;
  }
  return {size: [b.width, b.height], outside, inside};
}"""


async def run_script(tab: Tab, source: str, *arguments: Any, in_world: bool) -> Any:
    """Returns what a function returns in the page, or in the isolated world beside it."""
    where = {"executionContextId": tab._world} if in_world else {}
    if not in_world:
        found = await tab.call("Runtime.evaluate", expression="globalThis")
        where = {"objectId": found["result"]["objectId"]}
    given = [{"value": argument} for argument in arguments]
    result = await tab.call(
        "Runtime.callFunctionOn",
        functionDeclaration=source,
        arguments=given,
        returnByValue=True,
        awaitPromise=True,
        **where,
    )
    return result["result"].get("value")


def borders(mark: Mark) -> list[Rectangle]:
    """Returns the four sides of a frame."""
    left, top, width, height = mark.box
    sides = [(left, top, width, 2), (left, top + height - 2, width, 2), (left, top, 2, height)]
    return [Rectangle(*side) for side in [*sides, (left + width - 2, top, 2, height)]]


async def test_marks_change_the_frames_and_labels_of_seen_elements_and_nothing_else(pages: OpenPages) -> None:
    tools = await pages({"/": PAGE})
    tree = await act(tools, "read_page")
    tab = tools.context.current_tab()
    plain = await tab.capture("png")
    image, marks = await take_marked_picture(tab, 800, 600)
    names = ['button "One"', 'link "Two"', 'checkbox "Three"', 'button "Edge"']
    assert [str(mark.number) for mark in marks] == [number(tree, name) for name in names]
    assert marks[0].box == Rectangle(60, 80, 120, 40)
    assert marks[3].box == Rectangle(760, 300, 40, 30)  # the part that is in the viewport
    allowed = [part for mark in marks for part in [mark.label, *borders(mark)]]
    found = await run_script(tab, COMPARE, plain, base64.b64encode(image).decode(), allowed, in_world=True)
    assert found["size"] == [800, 600]
    assert found["outside"] == 0
    assert min(found["inside"]) > 0


async def test_the_page_is_not_changed_by_marks_and_sees_none(pages: OpenPages) -> None:
    tools = await pages({"/": PAGE})
    tab = tools.context.current_tab()
    look = "() => [document.documentElement.outerHTML, window.changes, Object.keys(window).sort().join()]"
    before = await run_script(tab, look, in_world=False)
    unmarked = await tab.screenshot()
    images = [(await take_marked_picture(tab, 800, 600)).image for _ in range(2)]
    assert images[0] == images[1]
    assert await run_script(tab, look, in_world=False) == before
    assert before[1] == 0
    assert await tab.screenshot() == unmarked


async def test_a_page_cannot_forge_or_stop_marks_with_its_own_functions(pages: OpenPages) -> None:
    forged = """<script>
    document.elementFromPoint = () => null; globalThis.createImageBitmap = () => null; globalThis.atob = () => '';
    OffscreenCanvas.prototype.convertToBlob = () => null; Element.prototype.getBoundingClientRect = () => ({});
    </script>"""
    seen = []
    for extra in ("", forged):
        tools = await pages({"/": PAGE + extra})
        seen.append(await take_marked_picture(tools.context.current_tab(), 800, 600))
    assert seen[0] == seen[1]


async def test_an_element_that_moves_has_no_mark(pages: OpenPages) -> None:
    moving = """<title>Moving</title><button>Still</button>
    <button id=b style="position:absolute;top:99px">Moves</button>
    <script>let at = 0; setInterval(() => { b.style.left = `${at++ % 400}px`; }, 1);</script>"""
    tools = await pages({"/": moving})
    tree = await act(tools, "read_page")
    _, marks = await take_marked_picture(tools.context.current_tab(), 800, 600)
    assert [str(mark.number) for mark in marks] == [number(tree, 'button "Still"')]


async def test_the_screenshot_names_its_marks_and_records_them(pages: OpenPages) -> None:
    tools: BrowserTools = await pages({"/": PAGE})
    screens: list[Screen] = []
    tools = BrowserTools(tools.context, tools.home, pictures=PictureOptions(marks=True))
    tools.observer.on_screen = screens.append
    said = await act(tools, "screenshot")
    (screen,) = screens
    assert screen.marks is not None
    assert said.endswith(f"Marked elements: {', '.join(map(str, screen.marks))}.")
    assert screen.image == (await take_marked_picture(tools.context.current_tab(), 800, 600)).image


async def test_two_attempts_have_the_same_marked_pictures_and_the_trees_of_plain_ones() -> None:
    task, seen = make_task("mail"), list[list[Screen]]()
    for marks in (True, True, False):
        async with opened(task, theme=5, marks=marks) as world:
            screens: list[Screen] = []
            world.on_screen = screens.append
            await follow(world)
            seen.append(screens)
    one, other, plain = seen
    assert one == other
    assert [(screen.url, screen.tree) for screen in one] == [(screen.url, screen.tree) for screen in plain]
    assert all(screen.marks and screen.image for screen in one)
    assert [screen.marks for screen in plain] == [None] * len(plain)


def test_labels_avoid_each_other_and_stay_in_the_picture() -> None:
    boxes = {1: Rectangle(0, 0, 30, 10), 22: Rectangle(30, 0, 30, 10), 333: Rectangle(90, 40, 10, 10)}
    marks = place_marks(boxes, 100, 50)
    labels = [mark.label for mark in marks]
    assert sum(one.overlap(other) for one in labels for other in labels if one is not other) == 0
    for label in labels:
        assert 0 <= label.left <= 100 - label.width
        assert 0 <= label.top <= 50 - label.height


async def test_the_evidence_of_a_run_lists_the_marked_numbers(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "cache", tmp_path / "store")
    config = RunConfig(tasks=("family:sites,site=museum,n=1,marks=true",), agent="oracle", run="marked")
    await start_run(config, settings, Tally())
    with RunStore.open(settings.store, "marked") as store:
        evidence = store.trajectory(store.attempts()[0].chain).evidence
    screens = [found for found in evidence if found.kind == SCREEN]
    assert screens
    for found in screens:
        assert found.data["marks"]
        assert all(number.isdecimal() for number in found.data["marks"])
        assert found.data["image"] in found.blobs
