"""Agent that carries a recorded attempt over to the same site under other looks, by matching elements.

Each recorded act on an element is done on the element of the page shown now that corresponds to it
(`environments.browser.element_match`). A question whether to do it is answered with yes, and the answer of the record
is left out where the page does not ask. Acts without an element are repeated as they were. At the first act without a
correspondence it ends, because what follows would act on a page that was not meant. After Tether's warped actions, on
elements in place of key points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from assay.environments.browser.element_match import Matching, Page, carry_over, is_confirming
from assay.environments.browser.page_text import confirmation
from assay.records import Evidence, Step, ToolCall, canonical_bytes, world_calls

from .interface import Attempt
from .page_search import require_pages
from .replay import ReplayAgent

CARRIED = "carried_script"
"""Kind of the evidence: numbers of recorded acts, of those that were matched, and how."""
_POINTS = frozenset({"x", "from_x", "from_bid", "coordinate"})
_EMPTY = Page("")


class CarryAgent(ReplayAgent):
    """Carries `attempt.prior` over to the pages of the attempt.

    Args:
        by: What elements are matched by.
    """

    def __init__(self, by: Matching = "elements") -> None:
        self._by = by

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` if the environment shows no pages."""
        require_pages(attempt, "replay", "carries scripts over to")
        carrying = _Carrying(attempt, self._by)
        acts = () if attempt.prior is None else attempt.prior.acts
        steps = [act for act in acts if isinstance(act, Step)]
        try:
            for step in steps:
                if step.actor == "agent" and not await carrying.repeat(step):
                    break
            await carrying.finish_questions()
        finally:
            carrying.note(steps)
        if attempt.ended is None:
            attempt.finish(carrying.problem or "the recorded acts were carried over")


class _Carrying:
    """A script under way."""

    def __init__(self, attempt: Attempt, by: Matching) -> None:
        self._attempt, self._by = attempt, by
        self._before = self._now = _EMPTY
        """The recorded page, and the one that is shown."""
        self._calls = 0
        self._counts = Counter[str]()
        self.problem = ""

    async def repeat(self, step: Step) -> bool:
        """Does a recorded step; returns False if an act of it has no correspondence or fails."""
        for call, seen in zip(world_calls(step), step.observations, strict=False):
            if call.parsed is None or seen.error:
                continue
            if not await self._carry(call.name, call.parsed):
                return False
            shown = Page(seen.content)
            self._before = shown if shown.view.parts and seen.truncated is None else self._before
        return True

    async def _carry(self, name: str, arguments: Mapping[str, Any]) -> bool:
        asked = confirmation(self._now.view)
        if is_confirming(name, arguments, self._before):
            if asked is None:
                self._counts["not asked"] += 1
                return True
            return await self._call(name, {"bid": asked.number})
        if asked is not None and not _asks(self._before):
            self._counts["confirmed"] += 1
            if not await self._call("click", {"bid": asked.number}):
                return False
        if _POINTS & arguments.keys():
            self.problem = f"{name} acts at a point or between two elements, which is not carried over"
            return False
        if "bid" not in arguments:
            return await self._call(name, arguments)
        found = carry_over(name, arguments, self._before, self._now, self._by)
        if found is None:
            self.problem = f"no element of the page corresponds to that of {name}"
            return False
        self._counts["matched"] += 1
        self._counts["same number"] += found.arguments["bid"] == arguments["bid"]
        return await self._call(found.name, found.arguments)

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> bool:
        given = dict(arguments)
        self._calls += 1
        (seen,) = await self._attempt.act([ToolCall(f"c{self._calls}", name, canonical_bytes(given).decode(), given)])
        if seen.error:
            self.problem = f"{name} failed: {seen.content[:200]}"
        page = Page(seen.content)
        self._now = page if page.view.parts else self._now
        return not seen.error and self._attempt.ended is None

    async def finish_questions(self) -> None:
        """Answers a question that the page asks after the last act."""
        asked = confirmation(self._now.view)
        if asked is not None and not self.problem and self._attempt.ended is None and not _asks(self._before):
            self._counts["confirmed"] += 1
            await self._call("click", {"bid": asked.number})

    def note(self, steps: list[Step]) -> None:
        """Records how many acts were matched."""
        page, acts = _EMPTY, 0
        for step in steps:
            for call, seen in zip(world_calls(step), step.observations, strict=False):
                if step.actor == "agent" and call.parsed is not None and not seen.error:
                    acts += "bid" in call.parsed and not is_confirming(call.name, call.parsed, page)
                    shown = Page(seen.content)
                    page = shown if shown.view.parts else page
        data = {"by": self._by, "acts": acts, **dict(self._counts), "problem": self.problem}
        self._attempt.note(Evidence(CARRIED, "audit", CARRIED, data))


def _asks(page: Page) -> bool:
    return confirmation(page.view) is not None
