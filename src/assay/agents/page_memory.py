"""Memory of pages: what a site's pages show and offer, and where their acts lead, as earlier attempts found it. Pure.

A page is remembered by the shape of its address, its heading, its values, and its links and forms; an act by what it is
called and what was entered. Identifiers are masked: a code that was entered is remembered by the name under which a
page showed it, so that a memory says where to look and never what was found there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from assay.environments.browser.page_moves import Move, MoveReader, PageAct
from assay.environments.browser.page_text import CODE, SKIP_LINK, PageView

from .memory import MemoryItem, MemoryRecord

PAGE: Final = "page"
"""Kind of the items."""
MASK: Final = "<code>"
_MASKED: Final = re.compile(CODE.pattern, re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+")
_MOST_OFFERS: Final = 60
_MOST_TEXT: Final = 200


class RememberedAct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A link that was followed, a form that was sent, or a step in the history."""

    kind: str
    label: str
    texts: tuple[tuple[str, str], ...] = ()
    """Entered values by field; a code by the name of the value that showed it, as `<Name>`."""

    @property
    def needs(self) -> frozenset[str]:
        """Names of the values that must have been seen before."""
        return frozenset(text[1:-1].lower() for _, text in self.texts if _is_reference(text))


class RememberedPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Layout and function of a page."""

    site: str
    path: str
    """Path of its address, identifiers masked."""
    heading: str
    values: tuple[tuple[str, str], ...] = ()
    """Shown values by name, in lower case; identifiers masked."""
    offers: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """Its links and forms: kind, label, and fields of a form."""
    is_refusal: bool = False
    """True if it reports that something is wrong."""

    @property
    def key(self) -> PageKey:
        """Returns what tells pages of a site apart."""
        return PageKey(self.path, self.heading)


class PageKey(NamedTuple):
    """Key that tells pages of a site apart."""

    path: str
    heading: str


class PageMove(NamedTuple):
    """A remembered act between two pages."""

    before: RememberedPage
    act: RememberedAct
    after: RememberedPage


def remember_page(view: PageView) -> RememberedPage:
    """Returns what is remembered of a page."""
    path = "/".join("*" if _MASKED.search(part) or _NUMBER.fullmatch(part) else part for part in view.path.split("/"))
    offers = [one for one in view.main_offers or view.offers if one.label and one.label != SKIP_LINK]
    return RememberedPage(
        urlsplit(view.address).netloc[:_MOST_TEXT],
        path[:_MOST_TEXT],
        mask(view.heading),
        tuple((mask(name), mask(value)) for name, value in view.values.items()),
        tuple(
            (one.kind, mask(one.label), tuple(mask(entry.label) for entry in one.entries))
            for one in offers[:_MOST_OFFERS]
        ),
        view.is_alert,
    )


def remember_act(act: PageAct, sources: Mapping[str, str]) -> RememberedAct:
    """Returns what is remembered of an act. `sources` are names of values by the identifiers that they showed."""
    texts = tuple((mask(label), f"<{sources[text]}>" if text in sources else mask(text)) for label, text in act.texts)
    return RememberedAct(act.kind, mask(act.label), texts)


def mask(text: str) -> str:
    """Returns a text with a mark in place of identifiers."""
    return _MASKED.sub(MASK, text[:_MOST_TEXT])


def _is_reference(text: str) -> bool:
    return text.startswith("<") and text.endswith(">") and text != MASK


class PageReader:
    """Reads the calls of an attempt as moves between remembered pages.

    Attributes:
        codes: Identifiers that were shown, by the name of the value in lower case; the latest.
    """

    def __init__(self) -> None:
        self.codes: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self._reader = MoveReader()
        self._read = 0

    def read(self, name: str, arguments: Mapping[str, Any], shown: str | None) -> Iterator[PageMove]:
        """Takes the next call that did not fail; yields the move that it completed."""
        self._reader.read(name, arguments, shown)
        for move in self._reader.moves[self._read :]:
            self.see(move.before)
            yield self._as_remembered(move)
            self.see(move.after)
        self._read = len(self._reader.moves)

    def see(self, view: PageView) -> None:
        """Notes the identifiers that a page shows as values."""
        for name, value in view.terms:
            if CODE.fullmatch(value):
                self.codes[name.lower()] = value
                self._sources[value] = name.lower()

    def _as_remembered(self, move: Move) -> PageMove:
        return PageMove(remember_page(move.before), remember_act(move.act, self._sources), remember_page(move.after))

    def refer(self, code: str) -> str:
        """Returns how an identifier is remembered: by the name of the value that showed it."""
        return f"<{self._sources[code]}>" if code in self._sources else MASK


def page_item(move: PageMove, step: int, state: str | None) -> MemoryItem:
    """Returns the item of a move."""
    texts = [msgspec.json.encode(part).decode() for part in (move.before, move.act, move.after)]
    return MemoryItem(PAGE, texts[0], texts[1], texts[2], step, state or "")


def page_moves(record: MemoryRecord) -> Iterator[PageMove]:
    """Yields the moves that a record remembers, in order; invalid items are skipped."""
    for item in record.items:
        if item.kind != PAGE:
            continue
        try:
            yield PageMove(
                msgspec.json.decode(item.when, type=RememberedPage),
                msgspec.json.decode(item.act, type=RememberedAct),
                msgspec.json.decode(item.what, type=RememberedPage),
            )
        except (msgspec.DecodeError, RecursionError):
            continue


def sites_of(record: MemoryRecord) -> frozenset[str]:
    """Returns the sites whose pages a record remembers."""
    return frozenset(move.before.site for move in page_moves(record))


def of_site(records: Iterable[MemoryRecord], site: str) -> Sequence[MemoryRecord]:
    """Returns the records that remember pages of a site."""
    return [record for record in records if site in sites_of(record)]
