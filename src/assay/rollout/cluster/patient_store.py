"""An object store that waits for answers: while the store does not answer, one request at a time asks again.

A node has many uploads under way. If each repeated its request by itself, a store that answers 503 would get all of
them again and again. Here those that failed wait in line; the first is repeated after a wait that doubles each time,
and goes to the end if it fails again, so that no request that can never succeed stands in the way of the others. After
an answer all go on at once.

Not covered: `list` and `delete`, which agents do not call, pass unchanged. Waiting has no limit; cancel the caller.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from assay.store.objects.interface import ObjectEntry, ObjectStore, ObjectStoreError

from .objects import FIRST_WAIT_S, LONGEST_WAIT_S, outage_warning

_T = TypeVar("_T")


class PatientStore:
    """An `ObjectStore` whose `create` and `read` never raise `ObjectStoreError`.

    A create whose answer was lost is repeated, and then returns False: read the object to see whose it is.
    """

    def __init__(self, objects: ObjectStore, on_failure: Callable[[], None] = lambda: None) -> None:
        """Creates the store; `on_failure` is told of each repeated request that failed."""
        self._objects, self._on_failure = objects, on_failure
        self._line: deque[asyncio.Future[None]] = deque()
        """Requests that failed, in the order in which they are repeated."""
        self._wait_s = FIRST_WAIT_S
        self._timer: asyncio.TimerHandle | None = None
        self._failing_since: float | None = None
        """Time of the first failure since the last answer to a repeated request."""

    async def create(self, key: str, data: bytes) -> bool:
        """Creates an object, as `ObjectStore.create`."""
        try:
            return await self._objects.create(key, data)
        except ObjectStoreError:
            return await self._repeat(lambda: self._objects.create(key, data))

    async def read(self, key: str, *, limit: int | None = None, size: int | None = None) -> bytes:
        """Reads an object. Raises `FileNotFoundError` and `ValueError`, as `ObjectStore.read`."""
        try:
            return await self._objects.read(key, limit=limit, size=size)
        except ObjectStoreError:
            return await self._repeat(lambda: self._objects.read(key, limit=limit, size=size))

    def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ObjectEntry]]:
        return self._objects.list(prefix, after=after)

    async def delete(self, key: str) -> None:
        await self._objects.delete(key)

    async def _repeat(self, request: Callable[[], Awaitable[_T]]) -> _T:
        while True:
            await self._wait_turn()
            try:
                answer = await request()
            except ObjectStoreError as exc:
                self._on_failure()
                self._warn_of_outage(exc)
                continue
            except (FileNotFoundError, ValueError):
                self._release_all()
                raise
            self._release_all()
            return answer

    def _warn_of_outage(self, reason: ObjectStoreError) -> None:
        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
        outage_warning.warn(now - self._failing_since, reason)

    async def _wait_turn(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        self._set_timer()
        await turn  # if it is cancelled, it is skipped in the line

    def _set_timer(self) -> None:
        if self._timer is None and self._line:
            wait_s = self._wait_s * (0.5 + random.random())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._release_next)

    def _release_next(self) -> None:
        self._timer = None
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        self._set_timer()

    def _release_all(self) -> None:
        self._wait_s, self._failing_since = FIRST_WAIT_S, None
        line, self._line = self._line, deque()
        for turn in line:
            if not turn.done():
                turn.set_result(None)
