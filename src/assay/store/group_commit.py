"""Group commit: combines the commits that many chains make in a turn or two of the event loop into one transaction.

SQLite writes whole pages, and a transaction for each of many chains writes the same pages again and again; one for all
of them costs half. A waiting caller resumes when its own pending events are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from assay.errors import StoreError
from assay.records import Body

from .encoding import EncodedBody

if TYPE_CHECKING:
    import asyncio


class Pending(Protocol):
    """Events of one chain that wait to be committed."""

    chain: str

    def pending(self) -> Sequence[Body | EncodedBody]:
        """Returns the waiting events, in order; empty where they were committed meanwhile."""
        ...

    def committed(self) -> None:
        """Records that all of `pending` was committed."""
        ...


class _Waiting(msgspec.Struct, frozen=True):
    """One chain's events, and the futures of the callers that wait for them."""

    pending: Pending
    futures: list[Any]
    """Of `asyncio.Future`."""

    def resolve(self, failure: StoreError | None) -> None:
        """Resolves the futures, except cancelled ones."""
        for future in self.futures:
            if future.done():
                continue
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)


class _Scheduled(msgspec.Struct, frozen=True):
    """One chain's events with a scheduled commit."""

    pending: Pending
    ready_at: float
    """From then on they are committed along with others (loop time); half of the wait is over."""
    due: float
    """Then they are committed at the latest."""


class GroupCommit:
    """Combines the transactions of one run. Used on one event loop."""

    def __init__(
        self,
        append_all: Callable[[Sequence[tuple[str, Sequence[Body | EncodedBody]]]], object],
        is_shared: Callable[[], bool],
    ) -> None:
        """`is_shared` returns whether several chains are open, so that others may have events to commit too."""
        self._append_all = append_all
        self._is_shared = is_shared
        self._waiting: dict[str, _Waiting] = {}
        self._scheduled: dict[str, _Scheduled] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def commit(self, pending: Pending) -> None:
        """Commits the pending events, with those of other callers in this turn of the event loop and the next one.

        Raises:
            StoreError: They were not committed and stay pending.
        """
        if not self._waiting and len(self._scheduled) <= 1 and not self._is_shared():
            self._append_all([(pending.chain, pending.pending())])
            self._mark_committed(pending)
            return
        loop = _running_loop()
        if not self._waiting:
            # In the turn after the next one: what arrives until then is committed along with these.
            loop.call_soon(loop.call_soon, self._commit_waiting)
        found = self._waiting.get(pending.chain)
        if found is None:
            found = self._waiting[pending.chain] = _Waiting(pending, [])
        future = loop.create_future()
        found.futures.append(future)
        await future

    def schedule(self, pending: Pending, wait_s: float) -> None:
        """Schedules a commit of the pending events, with those of others, at most `wait_s` from now.

        Events that cannot be committed then stay pending; the next `commit` raises the error.
        """
        known = self._scheduled.get(pending.chain)
        if known is not None and known.pending is pending:
            return
        now = _running_loop().time()
        later = self._scheduled[pending.chain] = _Scheduled(pending, now + wait_s / 2, now + wait_s)
        if self._timer is None or later.due < self._timer.when():
            self._set_timer(later.due)

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = _running_loop().call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = _running_loop().time()
        ready_at = [one.pending for one in self._scheduled.values() if one.ready_at <= now]
        for pending in ready_at:
            del self._scheduled[pending.chain]
        waiting = [_Waiting(pending, []) for pending in ready_at if pending.pending()]
        if waiting:
            self._commit(waiting)
        if self._scheduled:
            self._set_timer(min(one.due for one in self._scheduled.values()))

    def _mark_committed(self, pending: Pending) -> None:
        pending.committed()
        self._scheduled.pop(pending.chain, None)

    def _commit_waiting(self) -> None:
        waiting, self._waiting = list(self._waiting.values()), {}
        self._commit(waiting)

    def _commit(self, waiting: Sequence[_Waiting]) -> None:
        try:
            self._append_all([(one.pending.chain, one.pending.pending()) for one in waiting])
        except StoreError as exc:
            if len(waiting) == 1:
                waiting[0].resolve(exc)
                return
            for single in waiting:  # one of them may be the cause
                self._commit([single])
            return
        for one in waiting:
            self._mark_committed(one.pending)
            one.resolve(None)


def _running_loop() -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop = _asyncio().get_running_loop()
    return loop


@cache
def _asyncio() -> ModuleType:
    import asyncio  # late: a reader of stores needs no event loop, and it is slow to import

    return asyncio
