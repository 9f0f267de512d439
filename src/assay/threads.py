"""Bridges between threads and an event loop, for plain Python functions beside asynchronous code.

A function runs in a daemon thread of its own: one that never returns delays neither the event loop nor the end of the
process. Covered: every call that such a thread has begun on the loop is cancelled when its bridge closes. Not covered:
a thread cannot be ended; it runs on until its function returns.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ClosedBridgeError(RuntimeError):
    """A thread called the event loop after its bridge was closed."""


def start_thread(name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Starts a function in a daemon thread and returns its future, which also carries its exception."""
    future: Future[T] = Future()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as exc:
            future.set_exception(exc)

    threading.Thread(target=work, name=name, daemon=True).start()
    return future


async def run_in_thread(name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Runs a function in a daemon thread of its own and returns its result.

    Raises:
        RuntimeError: The function raised an exception that only a whole process or a coroutine can, such as
            `SystemExit`.
        Exception: The function's own exception.
    """
    future = start_thread(name, function, *args, **kwargs)
    await asyncio.wait([asyncio.wrap_future(_settled(future))])
    exc = future.exception()
    if exc is not None and (not isinstance(exc, Exception) or isinstance(exc, StopIteration)):
        raise RuntimeError(f"{type(exc).__name__}: {exc}") from exc
    return future.result()


def _settled(future: Future[Any]) -> Future[None]:
    """Returns a future that has no exception and ends with another."""
    settled: Future[None] = Future()
    future.add_done_callback(lambda _: settled.set_result(None) if not settled.done() else None)
    return settled


def run_coroutine(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Runs a coroutine to its end, also where an event loop runs already (a notebook): then in a thread of its own.

    A keyboard interrupt cancels the coroutine, which ends before the interrupt is raised.
    """
    if not _is_loop_running():
        return asyncio.run(make())
    tasks: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        tasks.set_result((asyncio.get_running_loop(), task))
        return await make()

    future = start_thread("assay-run", asyncio.run, main())
    try:
        return future.result()
    except KeyboardInterrupt:
        loop, task = tasks.result()
        loop.call_soon_threadsafe(task.cancel)
        future.exception()
        raise


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class LoopBridge:
    """Calls of one thread to the event loop on which the bridge was made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._open = True

    def call(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Awaits a coroutine function on the loop and returns its result to the calling thread.

        Raises:
            ClosedBridgeError: The bridge is closed, or was closed meanwhile.
        """

        async def tracked() -> T:
            self._require_open()
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                return await function(*args, **kwargs)
            except asyncio.CancelledError as exc:
                raise ClosedBridgeError("the attempt is over: this was cut") from exc
            finally:
                self._tasks.discard(task)

        self._require_open()
        return asyncio.run_coroutine_threadsafe(tracked(), self._loop).result()

    def _require_open(self) -> None:
        if not self._open:
            raise ClosedBridgeError("the attempt is over: nothing more can be done in it")

    def call_now(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a plain function on the loop. Raises as `call`."""

        async def wrapped() -> T:
            return function(*args, **kwargs)

        return self.call(wrapped)

    async def close(self) -> None:
        """Refuses further calls, cancels those under way and waits for their end. Idempotent."""
        self._open = False
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))
