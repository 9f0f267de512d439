"""Acts in a real Chromium: what a mouse and a keyboard do, on pages with scripts of their own."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from assay.environments.browser.screen import PointedElement, Screen
from assay.environments.browser.tools import BrowserTools
from assay.http.messages import RequestHead

from .conftest import HOME, OpenPages

pytestmark = pytest.mark.long
FORM = """<title>Form</title><main>
<form onsubmit="document.title='sent '+new URLSearchParams(new FormData(this));return false">
<label>Name <input name=name></label><label>Text <textarea name=text></textarea></label>
<label>Colour <select name=colour><option value=r>Red<option value=g>Green</select></label>
<label><input type=checkbox name=box> Agree</label><label>Day <input type=date name=day></label>
<button>Send</button></form>
<a href="/other">Other</a> <a href="/other" target=_blank rel=noopener>New</a>
<div draggable=false id=target tabindex=0 aria-label=Target role=button style="width:80px;height:40px;background:#ccc"
 onmouseup="document.title='dropped'">Drop</div>
<div id=source tabindex=0 aria-label=Source role=button style="width:80px;height:40px;background:#eee">Take</div>
<p style="display:none">Unseen</p><button hidden>Hidden</button><div style="height:3000px"></div></main>"""
PAGES = {"/": FORM, "/other": "<title>Other</title><h1>Another page</h1><a href='/'>Back</a>"}


def number(tree: str, line: str) -> str:
    """Returns the number of the element whose line of the tree begins with a text."""
    found = re.search(rf"^ *\[(\d+)\] {re.escape(line)}", tree, re.MULTILINE)
    assert found is not None, f"{line} is not in\n{tree}"
    return found[1]


async def act(tools: BrowserTools, name: str, **arguments: Any) -> str:
    observation = await tools.call(name, arguments)
    assert not observation.error, observation.content
    return observation.content


async def refuse(tools: BrowserTools, name: str, **arguments: Any) -> str:
    observation = await tools.call(name, arguments)
    assert observation.error, observation.content
    return observation.content


async def test_a_form_is_filled_in_and_sent(pages: OpenPages) -> None:
    tools = await pages(PAGES)
    tree = await act(tools, "read_page")
    assert "Unseen" not in tree
    assert "Hidden" not in tree
    await act(tools, "fill", bid=number(tree, 'textbox "Name"'), value="Ada")
    await act(tools, "fill", bid=number(tree, 'textbox "Text"'), value="two\nlines")
    await act(tools, "select_option", bid=number(tree, 'combobox "Colour"'), options="Green")
    await act(tools, "fill", bid=number(tree, 'textbox "Day"'), value="2026-03-02")
    changed = await act(tools, "click", bid=number(tree, 'checkbox "Agree"'))
    assert 'checkbox "Agree" checked' in changed
    assert 'combobox "Colour" value="Green"' in changed
    sent = await act(tools, "press", bid=number(tree, 'button "Send"'), key_comb="Enter")
    assert "sent name=Ada&text=two%0Alines&colour=g&box=on&day=2026-03-02" in sent


async def test_acts_that_cannot_be_done_say_why(pages: OpenPages) -> None:
    tools = await pages(PAGES)
    tree = await act(tools, "read_page")
    assert "no element [999]" in await refuse(tools, "click", bid="999")
    assert "not a number of an element" in await refuse(tools, "click", bid="first")
    assert "no such option; it has 'Red', 'Green'" in await refuse(
        tools, "select_option", bid=number(tree, 'combobox "Colour"'), options="Blue"
    )
    assert "not a text field" in await refuse(tools, "fill", bid=number(tree, 'checkbox "Agree"'), value="x")
    assert "such as 2026-03-02" in await refuse(tools, "fill", bid=number(tree, 'textbox "Day"'), value="tomorrow")
    assert "not a key" in await refuse(tools, "keyboard_press", key="Enterr")
    assert "800 x 600 pixels" in await refuse(tools, "mouse_click", x=900, y=10)
    assert "it takes bid, button, modifiers" in await refuse(tools, "click", element="1")
    assert "Unknown tool" in await refuse(tools, "run_script", code="1")


@pytest.mark.parametrize(
    "address",
    [
        "javascript:document.title='run'",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://other.test/",
        "//other.test",
        "",
    ],
)
async def test_only_addresses_of_the_site_are_loaded(pages: OpenPages, address: str) -> None:
    tools = await pages(PAGES)
    assert f"begin with {HOME}" in await refuse(tools, "goto", url=address)
    assert '"Form"' in await act(tools, "read_page")


async def test_history_and_tabs(pages: OpenPages) -> None:
    tools = await pages(PAGES)
    tree = await act(tools, "read_page")
    await refuse(tools, "go_back")
    assert "Another page" in await act(tools, "click", bid=number(tree, 'link "Other"'))
    assert '"Form"' in await act(tools, "go_back")
    assert "Another page" in await act(tools, "go_forward")
    await act(tools, "goto", url="/")
    opened = await act(tools, "click", bid=number(await act(tools, "read_page"), 'link "New"'))
    assert "Tab 1 of 0 to 1" in opened
    assert "Another page" in opened
    assert '"Form"' in await act(tools, "tab_focus", index=0)
    await act(tools, "tab_close")
    assert '"Form"' in await act(tools, "new_tab")


async def test_coordinates_scrolling_and_dragging(pages: OpenPages) -> None:
    tools = await pages(PAGES)
    layout = await act(tools, "read_page", view="layout")
    found = re.search(r'button "Target".* at (\d+),(\d+),(\d+),(\d+)', layout)
    assert found is not None
    x, y = int(found[1]) + 10, int(found[2]) + 10
    source, target = number(layout, 'button "Source"'), number(layout, 'button "Target"')
    screens = list[Screen]()
    tools.observer.on_screen = screens.append
    assert 'button "Target" focused' in await act(tools, "mouse_click", x=x, y=y)
    await act(tools, "mouse_click", x=799, y=599)
    await act(tools, "click", bid=target)
    tools.observer.on_screen = None
    assert [one.hit for one in screens] == [PointedElement(int(target), "button", "Target"), None, None]
    assert '"dropped"' in await act(tools, "drag_and_drop", from_bid=source, to_bid=target)
    assert "Scrolled to 500 of" in await act(tools, "scroll", delta_x=0, delta_y=500)


async def test_numbers_stay_with_their_elements(pages: OpenPages) -> None:
    tools = await pages(PAGES)
    before = await act(tools, "read_page")
    await act(tools, "goto", url="/other")
    assert await act(tools, "goto", url="/") == before


async def test_a_page_ends_alike_twice(pages: OpenPages) -> None:
    drawn = {"/": "<title>x</title><h1 id=h></h1><script>h.textContent = Math.random()</script><input autofocus>"}
    seen = set()
    for _ in range(2):
        tools = await pages(drawn)
        tree = await act(tools, "read_page")
        seen.add((tree, await tools.context.current_tab().screenshot()))
    assert len(seen) == 1


async def test_arguments_that_the_browser_cannot_take_are_refused(pages: OpenPages) -> None:
    tools = await pages(PAGES)
    tree = await act(tools, "read_page")
    for name, arguments in (
        ("keyboard_type", {"text": "\ud800"}),
        ("keyboard_press", {"key": "\ud800"}),
        ("send_msg_to_user", {"text": "\ud800"}),
        ("fill", {"bid": number(tree, 'textbox "Name"'), "value": "\ud800"}),
        ("scroll", {"delta_x": 0, "delta_y": 1e308}),
        ("scroll_at", {"x": 1, "y": 1, "dx": -1e308, "dy": 0}),
        ("scroll", {"delta_x": float("nan"), "delta_y": 0}),
    ):
        assert "Wrong arguments" in await refuse(tools, name, **arguments)
    assert "value=" in await act(tools, "press", bid=number(tree, 'textbox "Name"'), key_comb="x")


async def test_the_history_sends_no_form_again(pages: OpenPages) -> None:
    sent: list[str] = []

    def answer(head: RequestHead) -> str:
        sent.append(head.method)
        return "<title>Sent</title>"

    form = "<title>Form</title><form method=post action=/send><button>Send</button></form>"
    tools = await pages({"/": form, "/send": answer})
    await act(tools, "read_page")
    assert '"Sent"' in await act(tools, "click", bid="1")
    await act(tools, "goto", url="/")
    assert '"Not sent again"' in await act(tools, "go_back")
    assert sent == ["POST"]
    await act(tools, "goto", url="/")
    assert '"Sent"' in await act(tools, "click", bid="1")
    assert sent == ["POST", "POST"]


async def test_what_is_said_is_bounded_in_all(pages: OpenPages) -> None:
    tools = await pages(PAGES)
    for _ in range(2):
        assert await act(tools, "send_msg_to_user", text="x" * 50_000) == "Noted."
    assert "Too much" in await refuse(tools, "report_infeasible", reason="x")


async def test_numbers_are_finite(pages: OpenPages) -> None:
    tools = await pages(PAGES)
    for name, arguments in (("noop", {"wait_ms": math.nan}), ("mouse_click", {"x": 1, "y": math.nan})):
        assert f"Wrong arguments for {name}" in await refuse(tools, name, **arguments)


LATE = """<title>Late</title><p id=p>before</p>
<button onclick="requestAnimationFrame(() => requestAnimationFrame(() => { p.textContent = 'after' }))">Write</button>
<button onclick="requestAnimationFrame(() => requestAnimationFrame(() => { location = '/other' }))">Leave</button>
<button onclick="requestAnimationFrame(() => requestAnimationFrame(() => { window.open('/other') }))">Open</button>"""


async def test_a_script_has_two_frames_before_the_page_is_read_and_pictured(pages: OpenPages) -> None:
    tools = await pages({"/": LATE, "/other": PAGES["/other"]})
    screens: list[Screen] = []
    tools.observer.on_screen = screens.append
    tree = await act(tools, "read_page")
    assert '"after"' in await act(tools, "click", bid=number(tree, 'button "Write"'))
    assert "Another page" in await act(tools, "click", bid=number(tree, 'button "Leave"'))
    await act(tools, "screenshot")
    assert screens[-1].image == screens[-2].image  # that of the page to which the script led
    back = await act(tools, "go_back")
    assert "Another page" in await act(tools, "click", bid=number(back, 'button "Open"'))
    assert len(tools.context.tabs) == 2


async def test_the_viewport_is_not_that_of_the_window(pages: OpenPages) -> None:
    sizes = "[innerWidth, innerHeight, screen.width, screen.height, visualViewport.width]"
    far = "position:fixed;left:700px;top:560px"
    page = (
        f"<title>-</title><button style='{far}' onclick=\"document.title={sizes}\">Far</button><p style=height:5000px>"
    )
    tools = await pages({"/": page})
    tools.observer.on_screen = lambda _: (
        None
    )  # so that pictures are taken, after which the browser lets go of the pixels
    tree = await act(tools, "read_page")
    for _ in range(2):
        assert "800,600,800,600,800" in await act(tools, "click", bid=number(tree, 'button "Far"'))
        assert "Scrolled to 300" in await act(tools, "scroll", delta_x=0, delta_y=300)
        await act(tools, "scroll", delta_x=0, delta_y=-300)


async def test_a_start_page_has_loaded_before_it_is_read(pages: OpenPages) -> None:
    wait = "<script>for (const end = Date.now() + 300; Date.now() < end;);</script>"
    tools = await pages({"/": f"<title>x</title><h1>Early</h1>{wait}<!--{'x' * 200_000}-->{wait}<p>Late</p>"})
    state = await tools.context.current_tab().call("Runtime.evaluate", expression="document.readyState")
    assert state["result"]["value"] == "complete"
    assert "Late" in await act(tools, "read_page", view="text")
