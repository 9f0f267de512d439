"""Walks over a site in a browser: whole acts (a link, or a form filled in and sent), the ones tried least first.

It reads pages as text, wants nothing, and so is a source of recordings: `assay synth site` recovers a site from its
walks. Codes that pages showed on the way are entered where a form asks for a text.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from assay.environments.browser.page_text import SKIP_LINK, PageView, read_view
from assay.records import Observation, ToolCall, canonical_bytes

from ._options import read_options
from ._page_reading import Act, acts_on, confirming_click
from .interface import Attempt
from .page_search import require_pages


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    acts: Annotated[int, msgspec.Meta(ge=1)] = 30
    """Links that are followed and forms that are sent; each may take several calls."""


class PageWalkerAgent:
    """Walks over the pages of a site. Option: `acts`."""

    name = "page-walker"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` if the environment is not a site in a browser."""
        require_pages(attempt, self.name, "walks over")
        walk = _Walk(attempt)
        view = await walk.call("read_page", {})
        for _ in range(self._options.acts):
            act = None if view is None else walk.choose(view)
            view = await walk.call("go_back", {}) if act is None else await walk.carry_out(act)
            if attempt.ended is not None:
                return
        attempt.finish("the acts of the option `acts` are used up")


class _Walk:
    """A walk under way."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._draw = random.Random(attempt.seed)
        self._tried: Counter[tuple[str, str]] = Counter()
        self._codes: set[str] = set()
        self._calls = 0

    def choose(self, view: PageView) -> Act | None:
        """Returns the act of the page that was tried least on pages of this heading, of a page without acts a link
        around it; None where there is none either."""
        own = list(acts_on(view, sorted(self._codes)))
        menu = [part for part in (*view.parts[: view.first], *view.parts[view.last :]) if part.role == "link"]
        links = [Act(part.name, (("click", {"bid": part.number}),)) for part in menu if part.name != SKIP_LINK]
        acts = own or links
        if not acts:
            return None
        act = min(acts, key=lambda one: (self._tried[view.heading, one.about], self._draw.random()))
        self._tried[view.heading, act.about] += 1
        return act

    async def carry_out(self, act: Act) -> PageView | None:
        """Does an act, and confirms it where the page asks; returns the page after it."""
        view: PageView | None = None
        for name, arguments in act.calls:
            view = await self.call(name, arguments)
            if view is None:
                return await self.call("read_page", {})
        asked = None if view is None else confirming_click(view)
        return view if asked is None else await self.call(*asked)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> PageView | None:
        """Calls a tool; returns the page that it led to, or None if it failed."""
        given = dict(arguments)
        self._calls += 1
        call = ToolCall(f"w{self._calls}", name, canonical_bytes(given).decode(), given)
        seen: Observation
        (seen,) = await self._attempt.act([call])
        if seen.error or self._attempt.ended is not None:
            return None
        view = read_view(seen.content)
        self._codes |= view.codes
        return view
