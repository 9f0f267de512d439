"""Replays recorded walks on a recovered site in a real browser, and counts how much of them it reproduces.

A walk is replayed up to its first difference, or its first gap: from there on the mock and the record are in other
states, and all later steps count as not reproduced. What a page shows is compared line by line; the texts of codes,
which are drawn anew in each world, count as equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from assay.environments.browser.page_text import PageView, Part, confirmation, read_view
from assay.environments.browser.picture_options import SITE
from assay.environments.browser.pool import close_browsers
from assay.environments.browser.site_world import SiteWorld
from assay.environments.services.machines.machine import Transition
from assay.environments.services.pages.catalog import humanize
from assay.errors import EnvironmentFailure

from .observed import ObservedStep, key_of, observe, offers_of
from .recorded_walks import RecordedWalk
from .recovery import NOT_RECORDED, RecoveredSite, count_transitions, share_predicted

NOT_OFFERED: Final = "the act is not offered"
UNKNOWN_RESULT: Final = "its result is not recorded"
NOT_REFUSED: Final = "it was refused, and here it is not"
REFUSED: Final = "it is refused, and was not"
OTHER_SCREEN: Final = "it leads to another screen"
OTHER_VALUES: Final = "the screen shows other values"
GAP: Final = "the record has a gap"


class Fidelity(msgspec.Struct, frozen=True):
    """How much of recorded walks a recovered site reproduces."""

    walks: int = 0
    whole: int = 0
    """Walks that were reproduced to their end."""
    steps: int = 0
    reproduced: int = 0
    """Steps that led to the recorded screen with the recorded values, or were refused as recorded."""
    predicted: int = 0
    """Steps that the machine reproduces by itself, without pages: equal to `reproduced` if the pages are right."""
    agreement: float | None = None
    """Mean share of the lines of a page, recorded or shown, that are in both, over the reproduced steps that led to a
    screen; None without one."""
    differences: dict[str, int] = {}
    """First differences of walks, by kind."""
    right: int = 0
    """Steps that the machine predicts right, each by itself: after a difference it goes on where the record is."""
    wrong: int = 0
    unknown: int = 0
    """Steps of which it says that it does not know them."""

    @property
    def share(self) -> float:
        """Share of the steps that were reproduced."""
        return self.reproduced / self.steps if self.steps else 0.0


async def measure_fidelity(site: RecoveredSite, walks: Sequence[RecordedWalk], seed: int = 0) -> Fidelity:
    """Replays walks.

    Args:
        site: The recovered site.
        walks: Walks that it was not recovered from.
        seed: Seed of the world, of the codes and of the looks.

    Raises:
        UserError: Chromium's headless shell is not installed, or no sandbox works here.
        EnvironmentFailure: The browser is broken.
    """
    replays = []
    try:
        for walk in walks:
            replay = _Replay(site, walk, seed)
            await replay.run()
            replays.append(replay)
    finally:
        await close_browsers()
    agreements = [one for replay in replays for one in replay.agreements]
    return Fidelity(
        len(replays),
        sum(not replay.difference for replay in replays),
        sum(replay.steps for replay in replays),
        sum(replay.reproduced for replay in replays),
        share_predicted(site, walks)[0],
        sum(agreements) / len(agreements) if agreements else None,
        dict(Counter(replay.difference for replay in replays if replay.difference)),
        *count_transitions(site, walks),
    )


class _Replay:
    """Replay of one walk."""

    def __init__(self, site: RecoveredSite, walk: RecordedWalk, seed: int) -> None:
        self._site = site
        self._steps = observe(walk, site.application, by_pages=site.by_pages).steps
        self.steps = len(self._steps)
        self.reproduced = 0
        self.difference = ""
        self.agreements: list[float] = []
        parameters: dict[str, Any] = {"machines": [msgspec.to_builtins(site.machine)], SITE: {"pictures": False}}
        self._world = SiteWorld(parameters, seed)
        self._screen_address = f"{self._world.home}{site.machine.name}"
        self._codes: dict[str, str] = {}
        """Codes that the mock has shown, by term."""
        self._view: PageView | None = None

    async def run(self) -> None:
        """Replays the walk up to its first difference."""
        try:
            await self._look()
            for at, step in enumerate(self._steps):
                self.difference = GAP if at and not step.follows else await self._replay(step)
                if self.difference:
                    return
                self.reproduced += 1
        finally:
            await self._world.close()

    async def _replay(self, step: ObservedStep) -> str:
        """Does a step; returns the difference from the record, empty without one."""
        transition = self._site.transition(step.act)
        if transition is None or not await self._fill_and_send(transition, step):
            return NOT_OFFERED
        view = self._current
        if view.is_alert:
            await self._look()
            return "" if step.to is None else REFUSED
        self._remember_codes(view)
        if view.heading == self._site.machine.by_screen[NOT_RECORDED].title:
            return UNKNOWN_RESULT
        if step.to is None:
            return NOT_REFUSED
        if self._key(view) != self._key(step.view):
            return OTHER_SCREEN
        if self._terms(view) != self._terms(step.view):
            return OTHER_VALUES
        self.agreements.append(self._agreement(step.view, view))
        return ""

    def _key(self, view: PageView) -> tuple[str, tuple[str, ...]]:
        """Returns heading and texts of a page, as the mock holds them."""
        titles = {humanize(one.name) for one in self._site.machine.transitions}
        titles |= {one.title for one in self._site.machine.transitions if one.title}
        lines = key_of(view, by_pages=self._site.by_pages).content
        text = "\n".join(line.strip() for line in lines if line.strip() and line not in titles) or "-"
        return view.heading, tuple(text.split("\n"))

    def _terms(self, view: PageView) -> Mapping[str, str]:
        data = self._site.data
        return {} if self._site.by_pages else {
            term: "" if data.name(term) in data.codes else text for term, text in view.terms
        }  # fmt: skip

    def _agreement(self, recorded: PageView, shown: PageView) -> float:
        by_pages = self._site.by_pages
        labels = {one.title or humanize(one.name): one.name for one in self._site.machine.transitions}
        names = {name: key.label for key, name in self._site.acts.items()}
        offered = {names.get(labels.get(one.label, ""), one.label) for one in shown.main_offers}
        one, other = (
            Counter([*self._key(view)[1], *map(str, self._terms(view).items()), *offers])
            for view, offers in (
                (recorded, {offer.label for offer in offers_of(recorded, by_pages=by_pages)}),
                (shown, offered),
            )
        )
        return (one & other).total() / max((one | other).total(), 1)

    # The mock.

    @property
    def _current(self) -> PageView:
        assert self._view is not None, "a page was read"
        return self._view

    async def _look(self) -> None:
        """Shows the screen."""
        await self._call("goto", url=self._screen_address)
        self._remember_codes(self._current)

    async def _call(self, tool: str, **arguments: Any) -> None:
        seen = await self._world.call(tool, arguments)
        if seen.error:
            raise EnvironmentFailure(f"the recovered site: {tool}: {seen.content[:300]}")
        self._view = read_view(seen.content)

    def _remember_codes(self, view: PageView) -> None:
        self._codes |= {
            self._site.data.name(term): text for term, text in view.terms if self._site.data.name(term) in
            self._site.data.codes
        }  # fmt: skip

    async def _fill_and_send(self, transition: Transition, step: ObservedStep) -> bool:
        """Fills in the form of a transition as recorded and sends it, on a page of its own where the screen does not
        offer it, such as after the history was used; returns False if it does not take what was recorded."""
        title = transition.title or humanize(transition.name)
        if not self._parts_of_form(title):
            await self._call("goto", url=f"{self._screen_address}/{transition.name}")
        for label, text in step.act.texts:
            name = self._site.data.name(label)
            if name in transition.asks and not await self._choose(title, label, text):
                return False
        if transition.code and step.act.texts:
            right = not self._site.data.is_wrong_code(transition, step)
            text = self._codes.get(transition.code, "") if right else step.act.texts[0][1]
            boxes = [one for one in self._parts_of_form(title) if one.role == "textbox"]
            await self._call("fill", bid=boxes[0].number, value=text)
        button = next(one for one in self._parts_of_form(title) if one.role == "button")
        await self._call("click", bid=button.number)
        asked = confirmation(self._current)
        if asked is not None:
            await self._call("click", bid=asked.number)
        return True

    def _parts_of_form(self, title: str) -> list[Part]:
        parts = self._current.parts
        return [one for one in parts if one.number and self._current.form_of(one) == title]

    async def _choose(self, title: str, label: str, text: str) -> bool:
        """Chooses a value; returns False if the form does not offer it."""
        for part in self._parts_of_form(title):
            if self._current.label_of(part) != humanize(self._site.data.name(label)):
                continue
            if part.role == "radio" and part.name == text:
                await self._call("click", bid=part.number)
                return True
            if part.role == "combobox" and text in part.options:
                await self._call("select_option", bid=part.number, options=text)
                return True
        return False
