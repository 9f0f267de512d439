"""Results of judging a state, shared by the attempts at a task that ended in it.

Two states are one where task, judge, image, digest and manifest are equal: these name the content and mode of every
file. Invariant: a result that depends on more of its attempt than the state, such as a transcript, is never shared.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from assay.verify import CheckResult

MOST: Final = 256
"""States whose results are kept: attempts at one task are judged one after the other."""

Rounds = Mapping[str, Sequence[CheckResult]]
"""Results of each check by round."""


class JudgedState(NamedTuple):
    """The results of a state, and whether they depend on it alone."""

    rounds: Rounds
    depends_on_state_alone: bool


class _StoredResult(NamedTuple):
    chain: str
    """The attempt with which it was judged."""
    judged: JudgedState


class SharedResults:
    """The results of one re-verification. Used on one event loop."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _StoredResult] = OrderedDict()
        self._judging: dict[str, asyncio.Lock] = {}
        self._judged_with: dict[str, str] = {}

    async def judge(self, key: str, chain: str, judge: Callable[[], Awaitable[JudgedState]]) -> Rounds:
        """Returns the results of the state `key`, in which the attempt `chain` ended; `judge` makes them if it is the
        first, and raises what it raises to that attempt alone."""
        async with self._judging.setdefault(key, asyncio.Lock()):
            known = self._known.get(key)
            if known is not None and known.judged.depends_on_state_alone:
                self._known.move_to_end(key)
                self._judged_with[chain] = known.chain
                return known.judged.rounds
            if known is None:
                return (await self._make(key, chain, judge)).rounds
        return (await judge()).rounds

    def judged_with(self, chain: str) -> str | None:
        """Returns the attempt whose results were taken for this one; None where it was judged itself."""
        return self._judged_with.get(chain)

    async def _make(self, key: str, chain: str, judge: Callable[[], Awaitable[JudgedState]]) -> JudgedState:
        judged = await judge()
        self._known[key] = _StoredResult(chain, judged)
        while len(self._known) > MOST:
            dropped, _ = self._known.popitem(last=False)
            self._judging.pop(dropped, None)
        return judged
