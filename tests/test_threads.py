"""Bridges between threads and an event loop."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

import pytest

from assay.threads import ClosedBridgeError, LoopBridge, run_coroutine, run_in_thread

pytestmark = pytest.mark.quick


async def test_a_thread_calls_the_loop_until_the_bridge_is_closed() -> None:
    bridge, results = LoopBridge(), []

    def work() -> None:
        results.append(bridge.call(asyncio.sleep, 0, "slept"))
        results.append(bridge.call_now(lambda: threading.current_thread() is threading.main_thread()))

    await run_in_thread("t", work)
    await bridge.close()
    assert results == ["slept", True]
    with pytest.raises(ClosedBridgeError):
        await run_in_thread("t", work)


async def test_closing_cancels_a_call_under_way_and_waits_for_its_end() -> None:
    bridge, ended = LoopBridge(), []

    async def act() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append("act")

    thread = asyncio.create_task(run_in_thread("t", bridge.call, act))
    await asyncio.sleep(0.05)
    await bridge.close()
    assert ended == ["act"]
    with pytest.raises(ClosedBridgeError):
        await thread


async def test_exceptions_of_a_thread_reach_the_caller() -> None:
    def leave(exc: BaseException) -> None:
        raise exc

    with pytest.raises(LookupError, match="mine"):
        await run_in_thread("t", leave, LookupError("mine"))
    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        await run_in_thread("t", leave, SystemExit(3))
    with pytest.raises(RuntimeError, match="StopIteration"):
        await run_in_thread("t", leave, StopIteration())


async def test_cancelled_caller_does_not_wait_for_the_thread() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await run_in_thread("t", time.sleep, 1.5)
    assert time.monotonic() - began < 1.4


def test_interruption_inside_a_running_loop_ends_the_coroutine_first() -> None:
    """As in a notebook, whose loop has no signal handler of its own."""
    ended = threading.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async def cell() -> bool:
        main = threading.get_ident()
        threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            run_coroutine(work)
        return ended.is_set()

    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(cell())
    loop.close()
