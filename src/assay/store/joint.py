"""Joins what many chains commit in one turn of the event loop into one transaction.

SQLite writes whole pages, and a transaction for each of many chains writes the same pages again and again; one for all
of them costs half. Who waits here goes on when what it had pending is committed, as if it had committed alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

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


class JointCommits:
    """The transactions of one run. Used on one event loop."""

    def __init__(self, append_all: Callable[[Sequence[tuple[str, Sequence[Body]]]], object]) -> None:
        self._append_all = append_all
        self._waiting: dict[str, tuple[Pending, asyncio.Future[None]]] = {}
        self._later: dict[str, Pending] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def commit(self, pending: Pending) -> None:
        """Commits what `pending` has, with what others ask for in the same turn of the event loop.

        Raises:
            StoreError: It was not committed; what was pending stays so.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._run)
        found = self._waiting.get(pending.chain)
        if found is None:
            found = self._waiting[pending.chain] = (pending, loop.create_future())
        await asyncio.shield(found[1])

    def soon(self, pending: Pending, wait_s: float) -> None:
        """Commits what `pending` has then, with what others have, at most `wait_s` from now.

        What cannot be committed then stays pending, and whoever commits it next is told.
        """
        self._later[pending.chain] = pending
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        late, self._later = [one for one in self._later.values() if one.pending()], {}
        if late:
            loop = asyncio.get_running_loop()
            futures = [loop.create_future() for _ in late]
            self._commit(list(zip(late, futures, strict=True)))
            for future in futures:
                future.exception()  # looked at: whoever commits next is told

    def _run(self) -> None:
        waiting, self._waiting = list(self._waiting.values()), {}
        self._commit(waiting)

    def _commit(self, waiting: Sequence[tuple[Pending, asyncio.Future[None]]]) -> None:
        try:
            self._append_all([(one.chain, one.pending()) for one, _ in waiting])
        except StoreError as exc:
            if len(waiting) == 1:
                waiting[0][1].set_exception(exc)
                return
            for alone in waiting:  # one of them may be the cause, and the others have no part in it
                self._commit([alone])
            return
        for one, future in waiting:
            one.committed()
            future.set_result(None)
