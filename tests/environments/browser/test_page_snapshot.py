"""Pages that are kept and put into a new context: what a person would find there again, and what is said to be lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from assay.environments.browser.context import BrowserContext
from assay.environments.browser.page_snapshot import Entry, PageSnapshot, restore_pages, take_snapshot
from assay.environments.browser.pool import browser_pool
from assay.environments.browser.tools import BrowserTools
from assay.errors import EnvironmentFailure
from assay.http.messages import RequestHead, Response

from .conftest import HOME
from .test_acts import act, number

pytestmark = pytest.mark.long
FORM = """<title>Form</title><form method=post action=/send>
<label>Name <input name=name></label><label>Text <textarea name=text>old</textarea></label>
<label>Colour <select name=colour><option value=r>Red<option value=g>Green</select></label>
<label><input type=checkbox name=box checked> Agree</label>
<label><input type=radio name=pick value=a> A</label><label><input type=radio name=pick value=b> B</label>
<button>Send</button></form><a href="/other">Other</a> <a href="/other" target=_blank>New</a>
<details><summary>More</summary><p>Inner text</p></details>
<div tabindex=0 aria-label=Box style="height:60px;overflow:auto"><div style="height:900px">tall</div></div>
<dialog id=d><button>Yes</button></dialog><button command=show-modal commandfor=d>Ask</button>
<div style="height:3000px"></div>"""
OTHER = "<title>Other</title><h1>Another page</h1><a href='/'>Back</a>"
SCRIPT = """<title>Script</title><h1 id=h></h1><script>
document.cookie = 'seen=1'; localStorage.a = 'kept'; sessionStorage.b = 'also';
localStorage.setItem('setItem', 'a key');
</script><a href=/read>Read</a>"""
READ = """<title>-</title><script>
const called = localStorage.getItem('setItem');
document.title = [document.cookie, localStorage.a, sessionStorage.b, called].join(' ')</script>"""
BLOB = """<title>Blob</title><a id=a>Blob</a><script>
a.href = URL.createObjectURL(new Blob(['<h1>Made</h1>'], {type: 'text/html'}))</script>"""
NOSY = """<title>Nosy</title><h1 id=h></h1><script>let got = 0;
Promise.all(['a', '-1', '0', '99'].map((name) => fetch('/-/restored/' + name).then(() => ++got, () => 0)))
  .then(() => { document.title = got + ' answers' })</script>"""
MANY = """<title>Many</title><textarea id=t></textarea><script>t.value = 'x'.repeat(2e6);
document.body.insertAdjacentHTML('beforeend', '<details open></details>'.repeat(10001))</script>"""
PAGES = {
    "/": FORM,
    "/other": OTHER,
    "/send": "<title>Sent</title><h1>Sent</h1>",
    "/script": SCRIPT,
    "/read": READ,
    "/off": "<title>Off</title><a href='http://other.test/'>Off</a>",
    "/blank": "<title>Blank</title><a href='about:blank'>Blank</a>",
    "/blob": BLOB,
    "/nosy": NOSY,
    "/many": MANY,
}
Open = Callable[[PageSnapshot | None], Awaitable[BrowserTools]]


class Server:
    """Serves the pages and counts what was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, origin: str, head: RequestHead, body: bytes) -> Response | None:
        self.asked.append(f"{head.method} {head.target}")
        page = PAGES.get(head.target.partition("?")[0])
        if f"{origin}/" != HOME or page is None:
            return None
        return Response(200, page.encode(), {"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"})


@pytest.fixture
def server() -> Server:
    return Server()


@pytest_asyncio.fixture(loop_scope="session")
async def open_one(browsers: None, server: Server) -> AsyncIterator[Open]:
    async with AsyncExitStack() as opened:

        async def opens(kept: PageSnapshot | None = None) -> BrowserTools:
            context = await BrowserContext.open(await browser_pool().lease(), server, 800, 600)
            opened.push_async_callback(context.close)
            tools = BrowserTools(context, HOME)
            if kept is None:
                await tools.open_home()
            else:
                server.asked.clear()
                tools.lost = await restore_pages(context, kept)  # type: ignore[attr-defined]
                assert not [
                    one for one in server.asked if "/-/restored/" not in one
                ]  # which a page of these tests asks for
            return tools

        yield opens


def keep(tools: BrowserTools) -> PageSnapshot:
    """Returns the pages as they come out of a store."""
    kept = take_snapshot(tools.context)
    assert kept is not None
    return msgspec.json.decode(msgspec.json.encode(kept), type=PageSnapshot)


async def both(one: BrowserTools, other: BrowserTools, name: str, **arguments: Any) -> str:
    """Does an act in both and requires the same observation and the same picture."""
    seen, again = await act(one, name, **arguments), await act(other, name, **arguments)
    assert again == seen
    pictures = [await tools.context.current_tab().screenshot() for tools in (one, other)]
    assert pictures[0] == pictures[1]
    return seen


async def test_forms_scroll_and_focus_are_restored(open_one: Open) -> None:
    tools = await open_one(None)
    tree = await act(tools, "read_page")
    await act(tools, "fill", bid=number(tree, 'textbox "Name"'), value="Ada")
    await act(tools, "fill", bid=number(tree, 'textbox "Text"'), value="two\nlines")
    await act(tools, "select_option", bid=number(tree, 'combobox "Colour"'), options="Green")
    await act(tools, "click", bid=number(tree, 'checkbox "Agree"'))
    await act(tools, "click", bid=number(tree, 'radio "B"'))
    await act(tools, "click", bid=number(tree, 'button "More"'))
    await act(tools, "scroll_at", x=100, y=10, dx=0, dy=200)
    await act(tools, "press", bid=number(tree, 'textbox "Name"'), key_comb="Home")
    other = await open_one(keep(tools))
    seen = await both(tools, other, "read_page")
    assert 'textbox "Name" value="Ada" focused' in seen
    assert 'radio "B" checked' in seen
    assert "Inner text" in seen
    assert 'value="XAda"' in await both(tools, other, "keyboard_type", text="X")
    assert '"Sent"' in await both(tools, other, "press", bid=number(tree, 'button "Send"'), key_comb="Enter")


async def test_the_history_and_what_was_posted_are_restored(open_one: Open, server: Server) -> None:
    tools = await open_one(None)
    tree = await act(tools, "read_page")
    await act(tools, "click", bid=number(tree, 'link "Other"'))
    await act(tools, "goto", url="/")
    await act(tools, "click", bid=number(await act(tools, "read_page"), 'button "Send"'))
    await act(tools, "goto", url="/other?again")
    await act(tools, "go_back")
    other = await open_one(keep(tools))
    assert '"Not sent again"' in await both(tools, other, "read_page")
    for _ in range(3):
        await both(tools, other, "go_back")
    assert "history ends" in (await other.call("go_back", {})).content
    for _ in range(4):
        await both(tools, other, "go_forward")
    assert '"Another page"' in await both(tools, other, "read_page")
    assert not [asked for asked in server.asked if asked.startswith("POST")]


async def test_tabs_and_numbers_of_elements_are_restored(open_one: Open) -> None:
    tools = await open_one(None)
    tree = await act(tools, "read_page")
    await act(tools, "click", bid=number(tree, 'link "New"'))
    await act(tools, "new_tab")
    await act(tools, "tab_focus", index=1)
    other = await open_one(keep(tools))
    assert "Tab 1 of 0 to 2" in await both(tools, other, "read_page")
    assert '"Form"' in await both(tools, other, "click", bid=number(await act(tools, "read_page"), 'link "Back"'))
    await both(tools, other, "tab_focus", index=0)
    await both(tools, other, "tab_close")
    assert "Tab 1 of 0 to 1" in await both(tools, other, "read_page")


async def test_an_open_dialog_and_the_clipboard_are_restored(open_one: Open) -> None:
    tools = await open_one(None)
    tree = await act(tools, "read_page")
    await act(tools, "fill", bid=number(tree, 'textbox "Name"'), value="copied")
    await act(tools, "press", bid=number(tree, 'textbox "Name"'), key_comb="Control+a")
    await act(tools, "press", bid=number(tree, 'textbox "Name"'), key_comb="Control+c")
    await act(tools, "click", bid=number(tree, 'button "Ask"'))
    other = await open_one(keep(tools))
    assert "A dialog is open" in await both(tools, other, "read_page")
    await both(tools, other, "keyboard_press", key="Escape")
    text = number(tree, 'textbox "Text"')
    await both(tools, other, "fill", bid=text, value="")
    assert 'value="copied"' in await both(tools, other, "press", bid=text, key_comb="Control+v")


async def test_storage_and_cookies_are_restored_and_lost_scripts_are_named(open_one: Open) -> None:
    tools = await open_one(None)
    await act(tools, "goto", url="/script")
    kept = keep(tools)
    assert [cookie["name"] for cookie in kept.cookies] == ["seen"]
    other = await open_one(kept)
    assert other.lost == [  # type: ignore[attr-defined]
        "state of scripts",
        "forms and scroll positions of earlier pages in the history",
    ]
    assert '"seen=1 kept also a key"' in await both(tools, other, "goto", url="/read")


async def test_pages_of_another_form_are_refused(open_one: Open) -> None:
    tools = await open_one(None)
    await act(tools, "read_page")
    kept = keep(tools)
    for tab in (
        msgspec.structs.replace(kept.tabs[0], body=b"no zlib"),
        msgspec.structs.replace(kept.tabs[0], content={"filled": 3}),
        msgspec.structs.replace(kept.tabs[0], entries=(Entry("gopher://page.test/"),)),
    ):
        with pytest.raises(EnvironmentFailure, match="could not be restored"):
            await open_one(msgspec.structs.replace(kept, tabs=(tab,)))


@pytest.mark.parametrize("parts", [{"tabs": []}, {"current": 1}, {"current": -1}])
async def test_pages_that_do_not_fit_together_are_not_read(open_one: Open, parts: dict[str, Any]) -> None:
    kept = msgspec.to_builtins(keep(await open_one(None)))
    with pytest.raises(msgspec.ValidationError, match="tab"):
        msgspec.convert({**kept, **parts}, PageSnapshot)
    kept["tabs"][0]["at"] = 7
    with pytest.raises(msgspec.ValidationError, match="entry 7"):
        msgspec.convert(kept, PageSnapshot)


@pytest.mark.parametrize(("page", "address"), [("/off", "chrome-error"), ("/blank", "about:blank")])
async def test_a_page_that_the_site_did_not_serve_is_restored_as_such(open_one: Open, page: str, address: str) -> None:
    tools = await open_one(None)
    await act(tools, "click", bid=number(await act(tools, "goto", url=page), "link"))
    kept = keep(tools)
    assert kept.url == tools.context.current_tab().url
    other = await open_one(kept)
    assert any("did not serve" in lost for lost in other.lost)  # type: ignore[attr-defined]
    assert address in await both(tools, other, "read_page")
    again = take_snapshot(other.context)
    assert again is not None
    assert [entry.url for entry in again.tabs[0].entries] == [entry.url for entry in kept.tabs[0].entries]


async def test_a_document_that_a_page_made_is_named_and_does_not_end_the_attempt(open_one: Open) -> None:
    tools = await open_one(None)
    await act(tools, "click", bid=number(await act(tools, "goto", url="/blob"), "link"))
    other = await open_one(keep(tools))
    assert "documents that a page made itself" in other.lost  # type: ignore[attr-defined]
    assert "about:blank" in await act(other, "read_page")


async def test_a_page_neither_sees_nor_breaks_its_restoration(open_one: Open, server: Server) -> None:
    tools = await open_one(None)
    await act(tools, "goto", url="/nosy")
    other = await open_one(keep(tools))
    assert [one.rpartition("/")[2] for one in server.asked] == ["a", "-1", "0", "99"]
    assert '"0 answers"' in await both(tools, other, "read_page")


async def test_what_a_page_holds_is_bounded(open_one: Open) -> None:
    tools = await open_one(None)
    await act(tools, "goto", url="/many")
    kept = keep(tools)
    assert len(msgspec.json.encode(kept)) < 10_000
    assert {"what is open, because it is too much", "forms and storage that are too large"} <= set(kept.tabs[0].lost)
