"""Tasks that go on in the call that gives them something to do, and not in a later turn of the event loop.

A turn of the loop costs as much as taking in a small request. The future of asyncio always takes one, and so does the
start of a task (before Python 3.12). A proxy does both once for each request. Where many requests are under way it is
the other way round: a turn serves many, and it is cheaper to do the same step of all of them than all steps of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any

FEW = 4
"""Requests under way up to which turns are saved."""

Answer = Coroutine[Any, Any, None]


class PromptFuture:
    """A future without a value that one task awaits.

    A prompt `resolve` steps that task before it returns; within another task, which cannot be left for it, the event
    loop does. A duck type of `asyncio.Future`, as `asyncio.isfuture` describes it.
    """

    __slots__ = ("_asyncio_future_blocking", "_cancelled", "_context", "_done", "_loop", "_wake")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._wake: Callable[[PromptFuture], object] | None = None
        self._context: Context | None = None
        self._done = self._cancelled = self._asyncio_future_blocking = False

    def __await__(self) -> Generator[PromptFuture, None, None]:
        if not self._done:
            self._asyncio_future_blocking = True
            yield self
        if self._cancelled:
            raise asyncio.CancelledError

    def resolve(self, *, prompt: bool) -> None:
        """Lets the waiting task go on, at once or in a later turn. Idempotent."""
        if self._done:
            return
        self._done = True
        wake, context = self._wake, self._context
        if wake is None or context is None:
            return
        if prompt and asyncio.current_task(self._loop) is None:
            context.run(wake, self)
        else:
            self._loop.call_soon(wake, self, context=context)

    # Called by the task that awaits it.

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Returns the loop of the waiting task."""
        return self._loop

    def add_done_callback(self, wake: Callable[[PromptFuture], object], *, context: Context) -> None:
        """Takes the function that steps the waiting task."""
        self._wake, self._context = wake, context

    def cancel(self, msg: object = None) -> bool:
        """Lets the waiting task go on with `CancelledError`, in a later turn; returns False if it goes on already."""
        if self._done:
            return False
        self._done = self._cancelled = True
        if self._wake is not None:
            self._loop.call_soon(self._wake, self, context=self._context)
        return True

    def result(self) -> None:
        """Raises `CancelledError` if it was cancelled."""
        if self._cancelled:
            raise asyncio.CancelledError


class TaskPool:
    """Tasks that each run one coroutine after the other; those that are idle begin one at once."""

    def __init__(self, most_idle: int) -> None:
        self._most_idle = most_idle
        self._idle: list[_Worker] = []
        self.busy = 0
        """Coroutines that have not ended."""
        self._closed = False

    def run(self, answer: Answer) -> asyncio.Task[None]:
        """Runs a coroutine that raises nothing; returns its task, which may have run it already."""
        self.busy += 1
        if self._idle:
            worker = self._idle.pop()
            worker.begin(answer, prompt=self.busy <= FEW)
        else:
            worker = _Worker(self, answer)
        return worker.task

    def close(self) -> None:
        """Ends the idle tasks, and each other one once its coroutine has ended."""
        self._closed = True
        for worker in self._idle:
            worker.task.cancel()
        self._idle.clear()

    def keep(self, worker: _Worker) -> bool:
        """Takes a task whose coroutine has ended; returns False if it shall end too."""
        if self._closed or len(self._idle) >= self._most_idle:
            return False
        self._idle.append(worker)
        return True


class _Worker:
    def __init__(self, pool: TaskPool, answer: Answer) -> None:
        self._pool = pool
        self._loop = loop = asyncio.get_running_loop()
        self._answer: Answer | None = answer
        self._begun = PromptFuture(loop)
        self.task = loop.create_task(self._work())

    def begin(self, answer: Answer, *, prompt: bool) -> None:
        self._answer = answer
        self._begun.resolve(prompt=prompt)

    async def _work(self) -> None:
        while self._answer is not None:
            answer, self._answer = self._answer, None
            try:
                await answer
            finally:
                self._pool.busy -= 1
            self._begun = PromptFuture(self._loop)
            if self._pool.keep(self):
                await self._begun
