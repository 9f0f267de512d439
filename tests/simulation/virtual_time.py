"""An event loop under virtual time: when nothing is ready, its clock jumps to the next timer.

Real coroutines run unchanged; an hour of waiting takes no time. Nothing may wait for a file, a socket or a thread.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")


class _NoFiles(selectors.BaseSelector):
    """A selector that never has an event, and never waits."""

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return selectors.SelectorKey(fileobj, 0, 0, None)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return {}


class _Handle(msgspec.Struct, eq=False, gc=False):
    """A callback that is ready or waits for its time; what asyncio's handles do, without their cost."""

    due: float
    callback: Callable[..., object]
    args: tuple[Any, ...]
    context: Context | None
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.due


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time starts at 0 and moves only by jumps.

    An exception of a callback ends it. Its timers are tuples in a heap, which compare in C: those of asyncio compare in
    Python, which at 10,000 timers takes most of a simulation.
    """

    def __init__(self) -> None:
        super().__init__(_NoFiles())
        self._now = 0.0
        self._timers: list[tuple[float, int, _Handle | asyncio.Future[None]]] = []
        self._callbacks: deque[_Handle] = deque()
        self._set_timers = 0

    def time(self) -> float:
        return self._now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Handle:
        timer = _Handle(when, callback, args, context)
        self._set_timers += 1
        heapq.heappush(self._timers, (when, self._set_timers, timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Handle:
        when = self._now + delay
        timer = _Handle(when, callback, args, context)
        self._set_timers += 1
        heapq.heappush(self._timers, (when, self._set_timers, timer))
        return timer

    def set_pause(self, delay: float) -> asyncio.Future[None]:
        """Returns a future that is done after `delay` seconds, as a timer that sets its result makes it, without the
        timer's handle."""
        pause: asyncio.Future[None] = asyncio.Future(loop=self)
        self._set_timers += 1
        heapq.heappush(self._timers, (self._now + delay, self._set_timers, pause))
        return pause

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> _Handle:
        handle = _Handle(0.0, callback, args, context)
        self._callbacks.append(handle)
        return handle

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, _T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[_T]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def _run_once(self) -> None:
        """Runs callbacks, and timers in the order of their times, until the loop is stopped."""
        callbacks, timers, pop = self._callbacks, self._timers, heapq.heappop
        while not self._stopping:  # type: ignore[attr-defined]
            if callbacks:
                handle = callbacks.popleft()
            elif timers:
                when, _, timer = pop(timers)
                if not timer.cancelled() and when > self._now:
                    self._now = when
                if not isinstance(timer, _Handle):
                    if not timer.done():
                        timer.set_result(None)
                    continue
                handle = timer
            else:
                raise RuntimeError("nothing is ready and no timer is set: the program would wait for ever")
            if handle.is_cancelled:
                continue
            if handle.context is None:
                handle.callback(*handle.args)
            else:
                handle.context.run(handle.callback, *handle.args)


async def pause(delay: float) -> None:
    """Waits as `asyncio.sleep` does, at less cost in a virtual loop."""
    loop = asyncio.get_running_loop()
    await (loop.set_pause(delay) if isinstance(loop, VirtualLoop) else asyncio.sleep(delay))


def run_virtual(program: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine under virtual time, and cancels what it left."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(program)
    finally:
        close_loop(loop)


def close_loop(loop: VirtualLoop) -> None:
    """Cancels all tasks of a loop, lets them end, and closes it."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
