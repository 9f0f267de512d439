"""Joins what many chains commit in one turn of the event loop into one transaction.

SQLite writes whole pages, and a transaction for each of many chains writes the same pages again and again; one for all
of them costs half. Who waits here goes on when what it had pending is committed, as if it had committed alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from assay.errors import StoreError
from assay.records import Body

__all__ = ["JointCommits", "Pending"]


class Pending(Protocol):
    """Events of one chain that wait to be committed."""

    chain: str

    def pending(self) -> Sequence[Body]:
        """What waits now, in order; empty where it was committed meanwhile."""
        ...

    def committed(self) -> None:
        """All of `pending` was committed."""
        ...


class _Waiting(NamedTuple):
    """One chain's events, and who waits for them."""

    pending: Pending
    futures: list[asyncio.Future[None]]

    def tell(self, failure: StoreError | None) -> None:
        """Ends the waiting; one who was cancelled meanwhile is left alone."""
        for future in self.futures:
            if future.done():
                continue
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)


class _Later(NamedTuple):
    """One chain's events that are committed in a while, unless somebody does so before."""

    pending: Pending
    ripe: float
    """When they may be committed along with others, in the loop's time: half of the wait is over."""
    due: float
    """When they must be."""


class JointCommits:
    """The transactions of one run. Used on one event loop."""

    def __init__(self, append_all: Callable[[Sequence[tuple[str, Sequence[Body]]]], object]) -> None:
        self._append_all = append_all
        self._waiting: dict[str, _Waiting] = {}
        self._later: dict[str, _Later] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def commit(self, pending: Pending) -> None:
        """Commits what `pending` has, with what others ask for in the same turn of the event loop.

        Raises:
            StoreError: It was not committed; what was pending stays so.
        """
        if not self._waiting and len(self._later) <= 1:  # no other chain has anything that it could commit now
            self._append_all([(pending.chain, pending.pending())])
            self._committed(pending)
            return
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._run)
        found = self._waiting.get(pending.chain)
        if found is None:
            found = self._waiting[pending.chain] = _Waiting(pending, [])
        future = loop.create_future()
        found.futures.append(future)
        await future

    def soon(self, pending: Pending, wait_s: float) -> None:
        """Commits what `pending` has then, with what others have, at most `wait_s` from now.

        What cannot be committed then stays pending, and whoever commits it next is told.
        """
        known = self._later.get(pending.chain)
        if known is not None and known.pending is pending:
            return
        now = asyncio.get_running_loop().time()
        later = self._later[pending.chain] = _Later(pending, now + wait_s / 2, now + wait_s)
        if self._timer is None or later.due < self._timer.when():
            self._wake_at(later.due)

    def _wake_at(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        ripe = [one.pending for one in self._later.values() if one.ripe <= now]
        for pending in ripe:
            del self._later[pending.chain]
        waiting = [_Waiting(pending, []) for pending in ripe if pending.pending()]
        if waiting:
            self._commit(waiting)
        if self._later:
            self._wake_at(min(one.due for one in self._later.values()))

    def _committed(self, pending: Pending) -> None:
        pending.committed()
        self._later.pop(pending.chain, None)

    def _run(self) -> None:
        waiting, self._waiting = list(self._waiting.values()), {}
        self._commit(waiting)

    def _commit(self, waiting: Sequence[_Waiting]) -> None:
        try:
            self._append_all([(one.pending.chain, one.pending.pending()) for one in waiting])
        except StoreError as exc:
            if len(waiting) == 1:
                waiting[0].tell(exc)
                return
            for alone in waiting:  # one of them may be the cause, and the others have no part in it
                self._commit([alone])
            return
        for one in waiting:
            self._committed(one.pending)
            one.tell(None)
