"""Observed states and steps of a site: recorded moves, with pages put together to screens.

A screen is a heading with its texts. In the reading with values, what a page shows as a term and its value is data of
the site and no part of the screen; a page that reports a problem is a refusal, which leaves the site as it was; and
the start page, pages of other applications, those of a refused form, and what is reached by the history or by links
outside of a page's main part are around the screens, not among them. In the reading by pages, each page that differs
is a screen of its own, nothing is data, and a step in the history is a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from assay.environments.browser.page_moves import Move, PageAct
from assay.environments.browser.page_text import SKIP_LINK, Offer, PageView

from .recorded_walks import RecordedWalk


class ScreenKey(NamedTuple):
    """Features that tell screens apart."""

    heading: str
    content: tuple[str, ...]


class ObservedStep(NamedTuple):
    """A step of a recorded walk."""

    at: ScreenKey
    known: Mapping[str, str]
    """Values as they were shown last before it, by name."""
    act: PageAct
    to: ScreenKey | None
    """Screen after it; None where it was refused."""
    shown: Mapping[str, str]
    """Values that the page after it shows."""
    view: PageView
    """The page after it."""
    follows: bool
    """True if it begins where the last step ended."""


class ObservedWalk(NamedTuple):
    """The steps of a recorded walk."""

    name: str
    first: PageView | None
    """The first screen."""
    steps: tuple[ObservedStep, ...]
    outside: int
    """Moves on pages around the screens, such as the start page."""


def key_of(view: PageView, *, by_pages: bool) -> ScreenKey:
    """Returns the screen of a page."""
    terms = tuple(f"{name}: {value}" for name, value in view.terms) if by_pages else ()
    return ScreenKey(view.heading, (*terms, *view.content))


def offers_of(view: PageView, *, by_pages: bool) -> tuple[Offer, ...]:
    """Returns what a screen offers."""
    offers = view.offers if by_pages else view.main_offers
    return tuple(one for one in offers if one.label and one.label != SKIP_LINK)


def observe(walk: RecordedWalk, application: str, *, by_pages: bool) -> ObservedWalk:
    """Returns the steps of a walk; reading with values, those on pages of an application: the first part of their
    path."""
    if by_pages:
        steps = tuple(_page_steps(walk.moves))
        return ObservedWalk(walk.name, walk.moves[0].before if walk.moves else None, steps, 0)
    reader = _ValueReader(application)
    for move in walk.moves:
        reader.read(move)
    return ObservedWalk(walk.name, reader.first, tuple(reader.steps), reader.outside)


def _page_steps(moves: tuple[Move, ...]) -> Iterator[ObservedStep]:
    follows = True
    for move in moves:
        follows = follows and move.follows
        if move.act.kind == "history":
            follows = False
        elif move.act.label != SKIP_LINK:
            before, after = key_of(move.before, by_pages=True), key_of(move.after, by_pages=True)
            yield ObservedStep(before, {}, move.act, after, {}, move.after, follows)
            follows = True


class _ValueReader:
    """Follows a walk over screens with values."""

    def __init__(self, application: str) -> None:
        self._application = application
        self.first: PageView | None = None
        self.steps: list[ObservedStep] = []
        self.outside = 0
        self._at: ScreenKey | None = None
        self._known: dict[str, str] = {}
        self._is_on_screen = False
        self._follows = True
        self._has_stepped = False
        """True once a step began on the screen that is held for the present one."""

    def read(self, move: Move) -> None:
        """Takes the next move."""
        if not move.follows:
            self._leave()
        if self._at is None and not self._is_around(move.before):
            self._arrive(move.before)
        is_form = move.act.kind == "form"
        is_own = is_form or (self._is_on_screen and Offer("link", move.act.label) in move.before.main_offers)
        if self._at is not None and is_own and not self._is_around(move.after):
            self._step(move)
            return
        self.outside += 1
        self._is_on_screen = False
        is_known = self._has_stepped and self._at != self._key(move.after)
        if not self._is_around(move.after) and not is_form and not is_known:
            self._arrive(move.after)

    def _step(self, move: Move) -> None:
        assert self._at is not None, "a step begins on a screen"
        self._has_stepped = True
        is_refused = move.after.is_alert
        to = None if is_refused else self._key(move.after)
        shown = {} if is_refused else dict(move.after.terms)
        self.steps.append(ObservedStep(self._at, dict(self._known), move.act, to, shown, move.after, self._follows))
        self._follows = True
        if is_refused:
            self._is_on_screen = False
        else:
            self._arrive(move.after)

    def _arrive(self, view: PageView) -> None:
        self._at, self._is_on_screen = self._key(view), True
        self._known |= dict(view.terms)
        if not self.steps:
            self.first = view

    def _leave(self) -> None:
        self._at, self._is_on_screen, self._follows, self._has_stepped = None, False, False, False

    def _is_around(self, view: PageView) -> bool:
        first = view.path.strip("/").partition("/")[0]
        return not first or first != self._application

    def _key(self, view: PageView) -> ScreenKey:
        return key_of(view, by_pages=False)
