"""Control over the attempts of several runs from outside: shared slots, pause and resume, and aborting trials.

Not for limits of one run (`RunConfig.concurrency`) or of one attempt (`meter`).

While paused, no attempt begins and no model call does; calls under way are answered, attempts under way stay open, and
their wall clocks stand still. Programs that the agents run, and time limits of single commands, go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Literal

from .meter import Meter


class AttemptClock:
    """The wall clock of an attempt that is acting: its timeout, and its meter."""

    def __init__(self, timeout: asyncio.Timeout, meter: Meter) -> None:
        self._timeout, self._meter = timeout, meter
        self._left_s: float | None = None

    def stop(self) -> None:
        """Stops the clock."""
        when = self._timeout.when()
        if when is not None and not self._timeout.expired():
            self._left_s = when - asyncio.get_running_loop().time()
            self._timeout.reschedule(None)
        self._meter.begin_pause()

    def start(self) -> None:
        """Lets the clock go on where it stood."""
        self._meter.end_pause()
        if self._left_s is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._left_s)
        self._left_s = None


class RunControls:
    """The controls of runs that are under way in one process. `concurrency` bounds their attempts together."""

    def __init__(self, concurrency: int) -> None:
        self._slots = asyncio.Semaphore(concurrency)
        self._going = asyncio.Event()
        self._going.set()
        self._clocks: set[AttemptClock] = set()
        self._trials: dict[tuple[str, str], asyncio.Task[object]] = {}
        self._aborted: set[tuple[str, str]] = set()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for a slot, in the order of the calls, and holds it."""
        async with self._slots:
            await self._going.wait()
            yield

    @property
    def is_paused(self) -> bool:
        """Returns whether model calls are held."""
        return not self._going.is_set()

    def pause(self) -> None:
        """Holds new attempts and model calls, and stops clocks. Idempotent."""
        if self.is_paused:
            return
        self._going.clear()
        for clock in self._clocks:
            clock.stop()

    def resume(self) -> None:
        """Ends a pause. Idempotent."""
        if not self.is_paused:
            return
        for clock in self._clocks:
            clock.start()
        self._going.set()

    @contextmanager
    def clock(self, timeout: asyncio.Timeout, meter: Meter) -> Iterator[None]:
        """Stops a timeout, which was entered, and a meter during pauses."""
        clock = AttemptClock(timeout, meter)
        self._clocks.add(clock)
        if self.is_paused:
            clock.stop()
        try:
            yield
        finally:
            self._clocks.discard(clock)
            if self.is_paused:
                meter.end_pause()

    def call_slots(self, concurrency: int) -> asyncio.Semaphore:
        """Returns slots for model calls, which none gets during a pause."""
        return _PausedSemaphore(concurrency, self._going)

    @contextmanager
    def trial(self, run: str, attempt: str, task: asyncio.Task[object]) -> Iterator[None]:
        """Lets a trial be aborted by its attempt."""
        self._trials[run, attempt] = task
        try:
            yield
        finally:
            self._trials.pop((run, attempt), None)

    def abort(self, run: str, attempt: str) -> bool:
        """Ends the trial of an attempt, whose chain is kept and marked; another trial follows. Returns False if the
        attempt is not under way."""
        task = self._trials.get((run, attempt))
        if task is None or task.done():
            return False
        self._aborted.add((run, attempt))
        task.cancel()
        return True

    def is_aborted(self, run: str, attempt: str) -> bool:
        """Returns whether the trial of an attempt was aborted, until `clear_abort`."""
        return (run, attempt) in self._aborted

    def clear_abort(self, run: str, attempt: str) -> None:
        """Forgets an abort, once its trial has ended."""
        self._aborted.discard((run, attempt))


class _PausedSemaphore(asyncio.Semaphore):
    def __init__(self, value: int, going: asyncio.Event) -> None:
        super().__init__(value)
        self._going = going

    async def acquire(self) -> Literal[True]:
        while True:
            await super().acquire()
            if self._going.is_set():
                return True
            self.release()
            await self._going.wait()
