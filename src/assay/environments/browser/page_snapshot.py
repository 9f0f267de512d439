"""Pages as they are kept: what is needed to put a browser's part of an attempt into a new context, replaying nothing.

A tab is kept as the document that was served last, byte for byte, the addresses of its history, and what the document
holds beside its markup. To restore it, the history is built of empty pages that this module serves; the last document
is served again as it was, and its forms, scroll, focus, dialogs and storage are set. The site is asked for what the
document loads by itself, its stylesheet, and for nothing else; forms that a script sends meanwhile are refused. Going
back later asks the site, as it did before.

Not covered, and named in what `restore_pages` returns: state of a page's scripts, editable elements, frames, chosen
files, a mouse button that is held, documents that a page made itself (`blob:`), and the forms and scroll positions that
the browser itself would restore on earlier pages of the history.
"""

from __future__ import annotations

import zlib
from contextlib import nullcontext, suppress
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from assay.environments.browser import acts
from assay.errors import EnvironmentFailure
from assay.http.messages import RequestHead, Response

from .cdp import CdpError
from .context import MOST_TABS, BrowserContext
from .screen import Point
from .tab import ActProblem, Tab
from .uploads import restore_files

MOST_ENTRIES: Final = 50
"""Entries of a history, which the browser bounds likewise."""
_MARK: Final = "/-/restored/"
"""Beginning of the paths from which restored entries are reached: a redirect makes each address an entry of its own."""
_STUB: Final = Response(
    200, b"<!doctype html><title>-</title><body>", {"Content-Type": "text/html", "Cache-Control": "no-store"}
)
_REFUSED_DOCUMENT: Final = Response(0, b"", {})
_EARLIER: Final = "forms and scroll positions of earlier pages in the history"
_BLANK: Final = "about:blank"
_FAILED: Final = "chrome-error://chromewebdata/"
"""Address of the page that the browser shows in place of one that was refused."""
_REFUSED: Final = 0
"""Status of a document that the site does not serve."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """An entry of a history."""

    url: str
    is_posted: bool = False


class TabSnapshot(msgspec.Struct, frozen=True):
    """A tab."""

    entries: tuple[Entry, ...]
    at: int
    """Number of the current entry."""
    status: int
    headers: dict[str, str]
    body: bytes
    """Compressed."""
    content: dict[str, Any]
    """Content of the document beside its markup, as `keeper.js` reports it."""
    keys: tuple[tuple[bytes, int], ...]
    """Numbers of elements, by key."""
    pointer: tuple[float, float] | None = None
    lost: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.at < len(self.entries) <= MOST_ENTRIES:
            raise ValueError(f"entry {self.at} of a history of {len(self.entries)}")

    @property
    def url(self) -> str:
        """Address of the page."""
        return _FAILED if self.status == _REFUSED else self.entries[self.at].url


class PageSnapshot(msgspec.Struct, frozen=True):
    """All tabs of an attempt."""

    tabs: tuple[TabSnapshot, ...]
    current: int
    next_number: int
    """Number that the next new element gets."""
    clipboard: str = ""
    notes: tuple[str, ...] = ()
    cookies: tuple[dict[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.current < len(self.tabs) <= MOST_TABS:
            raise ValueError(f"tab {self.current} of {len(self.tabs)}")

    @property
    def url(self) -> str:
        """Address of the current page."""
        return self.tabs[self.current].url


async def capture(context: BrowserContext) -> None:
    """Notes the history of the current tab and the cookies, after an act; everything else is noted as it happens."""
    tab = context.current
    if tab is None or tab.has_crashed or tab.is_closed:
        return
    state = (tab.document, tab.url)
    if tab.history_of != state:
        history = await tab.call("Page.getNavigationHistory")
        entries = [one for one in history.get("entries") or () if isinstance(one, dict)][-MOST_ENTRIES:]
        at = int(history.get("currentIndex", 0)) - (len(history.get("entries") or ()) - len(entries))
        if tab.served is not None and 0 <= at < len(entries):
            tab.methods[int(entries[at]["id"])] = tab.served.method
        tab.entries = [(int(one["id"]), str(one.get("url"))) for one in entries]
        tab.entry = at
        tab.history_of = state
    served = {} if tab.served is None else tab.served.response.headers
    if "state of scripts" in tab.content.get("lost", ()) or any(name.lower() == "set-cookie" for name in served):
        context.has_cookies = True
    if context.has_cookies:
        await context.read_cookies()


def take_snapshot(context: BrowserContext) -> PageSnapshot | None:
    """Returns the pages as they were after the last act; None without one that can be kept."""
    tabs = [kept for tab in context.tabs if (kept := _capture_tab(tab)) is not None]
    if not tabs or context.current is None or len(tabs) != len(context.tabs):
        return None
    return PageSnapshot(
        tuple(tabs),
        context.tabs.index(context.current),
        context.numbers.following,
        context.clipboard.text,
        context.notes,
        tuple(context.cookies),
    )


def _capture_tab(tab: Tab) -> TabSnapshot | None:
    entries = tab.entries
    if tab.last is None or not 0 <= tab.entry < len(entries):
        return None
    first = next((at for at, (_, url) in enumerate(entries) if url != _BLANK), tab.entry)
    kept = tuple(
        Entry(url if url.startswith("http") else _BLANK, tab.methods.get(number, "GET") == "POST")
        for number, url in entries[first:]
    )
    lost = [str(one)[:100] for one in tab.content.get("lost", ())]
    if any(not url.startswith("http") and url != _BLANK for _, url in entries[first:]):
        lost.append("documents that a page made itself")
    served = _document_of(tab)
    if served is None:
        return None
    if served in (_REFUSED_DOCUMENT, _STUB):
        lost.append("storage, while a page is shown that the site did not serve")
    lost += [_EARLIER] if len(kept) > 1 else []
    lost += ["a mouse button that is held"] if tab.is_held else []
    return TabSnapshot(
        kept,
        tab.entry - first,
        served.status,
        dict(served.headers),
        zlib.compress(served.body),
        {name: value for name, value in tab.content.items() if name != "lost"},
        tab.numbering.keys,
        None if tab.pointer is None else (tab.pointer.x, tab.pointer.y),
        tuple(lost),
    )


def _document_of(tab: Tab) -> Response | None:
    """Returns the document that a tab shows; None if it is not known."""
    if tab.url == _FAILED:
        return _REFUSED_DOCUMENT
    if not tab.url.startswith("http"):
        return _STUB
    return None if tab.served is None else tab.served.response


async def restore_pages(context: BrowserContext, kept: PageSnapshot) -> list[str]:
    """Puts kept pages into a new context, which has one empty tab; returns what could not be restored.

    Raises:
        EnvironmentFailure: The pages are of another form, or the browser does not load them.
    """
    serve, lost = context.serve, list[str]()
    context.clipboard.text = kept.clipboard
    try:
        await context.write_cookies(kept.cookies)
        for number, tab in enumerate(kept.tabs):
            if number:
                await context.new_tab()
            restorer = _Restorer(context, tab)
            context.serve = restorer.serve
            lost += await restorer.restore(context.current_tab())
            context.serve = serve
        context.current = context.tabs[kept.current]
        context.numbers.following = kept.next_number
    except (ActProblem, CdpError, IndexError, TypeError, KeyError, ValueError, zlib.error) as exc:
        raise EnvironmentFailure(f"the pages of a state could not be restored: {exc}") from exc
    finally:
        context.serve = serve
    context.take_notes()
    for note in kept.notes:
        context.note(note)
    return list(dict.fromkeys(lost))


class _Restorer:
    """Restores one tab, and answers its requests meanwhile."""

    def __init__(self, context: BrowserContext, kept: TabSnapshot) -> None:
        self._context = context
        self._serve_site = context.serve
        self._kept = kept
        body = zlib.decompressobj().decompress(kept.body, 64 << 20)
        is_refused = kept.status == _REFUSED
        self._document = None if is_refused else Response(kept.status, body, kept.headers)
        self._is_last = False
        self._expected = ""
        """Path with a mark that is asked for next, once: a page may ask for such paths, too."""

    async def serve(self, origin: str, head: RequestHead, body: bytes) -> Response | None:
        """Answers a request without the site's tools."""
        entries = self._kept.entries
        if head.target == self._expected:
            entry = entries[int(head.target.removeprefix(_MARK))]
            self._expected = ""
            return Response(307 if entry.is_posted else 302, b"", {"Location": entry.url, "Cache-Control": "no-store"})
        if not self._is_last:
            return _STUB
        if f"{origin}{head.target}" == entries[self._kept.at].url.partition("#")[0]:
            return self._document
        return await self._serve_site(origin, head, body) if head.method == "GET" else None

    async def restore(self, tab: Tab) -> list[str]:
        """Builds the history, loads the document, and sets what it held."""
        kept = self._kept
        content = {"filled": [], "open": [], "modal": [], "inner": [], "files": [], "scroll": [0, 0], **kept.content}
        last = len(kept.entries) - 1
        has_storage = bool(content.get("local") or content.get("session"))
        for number in range(last + 1):
            self._is_last = number == last == kept.at and not has_storage
            await self._load(tab, number)
        if has_storage:
            await tab.evaluate("restoreStorage", content.get("local") or [], content.get("session") or [])
        if not self._is_last:
            self._is_last = True
            await self._load_again(tab)
        tab.numbering.restore(kept.keys)
        lost = [*kept.lost, *await tab.evaluate("restore", content)]
        lost += await restore_files(tab, content["files"], self._context.files)
        if kept.pointer is not None:
            await acts.move(tab, Point(*kept.pointer))
        await tab.settle()
        await tab.read()
        await _note_history(tab, kept)
        return lost

    async def _load(self, tab: Tab, number: int) -> None:
        entry = self._kept.entries[number]
        split = urlsplit(entry.url)
        self._expected = f"{_MARK}{number}"
        address = _BLANK if entry.url == _BLANK else f"{split.scheme}://{split.netloc}{self._expected}"
        if entry.is_posted and number:
            await tab.evaluate("post", address)
        else:
            with suppress(ActProblem) if self._is_last and self._document is None else nullcontext():
                await acts.go(tab, address)  # what is refused is to fail
        await tab.settle()

    async def _load_again(self, tab: Tab) -> None:
        """Loads the current entry with its own document."""
        history = await tab.call("Page.getNavigationHistory")
        entries = history.get("entries") or []
        first = len(entries) - len(self._kept.entries)
        await tab.call("Page.navigateToHistoryEntry", entryId=entries[first + self._kept.at].get("id"))
        await tab.settle()


async def _note_history(tab: Tab, kept: TabSnapshot) -> None:
    history = await tab.call("Page.getNavigationHistory")
    entries = history.get("entries") or []
    tab.entries = [(int(one["id"]), str(one.get("url"))) for one in entries]
    tab.entry = int(history.get("currentIndex", 0))
    first = len(entries) - len(kept.entries)
    for (number, _), entry in zip(tab.entries[first:], kept.entries, strict=False):
        tab.methods[number] = "POST" if entry.is_posted else "GET"
    tab.history_of = (tab.document, tab.url)
