"""Futures and tasks that go on in the call that gives them something to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from assay.http.prompt_tasks import FEW, PromptFuture, TaskPool


async def from_callback(act: Callable[[], object]) -> None:
    """Calls a function as the event loop does: within no task."""
    ended = asyncio.get_running_loop().create_future()

    def call() -> None:
        try:
            act()
        except (AssertionError, RuntimeError) as exc:
            ended.set_exception(exc)
        else:
            ended.set_result(None)

    asyncio.get_running_loop().call_soon(call)
    await ended


async def waiting(future: PromptFuture, seen: list[str]) -> None:
    try:
        await future
        seen.append("resolved")
    except asyncio.CancelledError:
        seen.append("cancelled")
        raise


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def inner() -> None:
        await test()

    asyncio.run(inner())


def test_a_prompt_future_steps_its_task_before_it_returns() -> None:
    async def test() -> None:
        future, seen = PromptFuture(asyncio.get_running_loop()), list[str]()
        task = asyncio.create_task(waiting(future, seen))
        await asyncio.sleep(0)

        def resolve() -> None:
            future.resolve(prompt=True)
            seen.append("returned")

        await from_callback(resolve)
        assert seen == ["resolved", "returned"]
        assert task.done()
        future.resolve(prompt=True)

    run(test)


@pytest.mark.parametrize("within_a_task", [True, False])
def test_a_task_is_not_left_for_another_one(within_a_task: bool) -> None:
    async def test() -> None:
        future, seen = PromptFuture(asyncio.get_running_loop()), list[str]()
        task = asyncio.create_task(waiting(future, seen))
        await asyncio.sleep(0)

        def resolve() -> None:
            future.resolve(prompt=within_a_task)
            seen.append("returned")

        if within_a_task:
            resolve()
        else:
            await from_callback(resolve)
        await task
        assert seen == ["returned", "resolved"]

    run(test)


def test_a_future_that_is_resolved_before_it_is_awaited_waits_for_nothing() -> None:
    async def test() -> None:
        future = PromptFuture(asyncio.get_running_loop())
        future.resolve(prompt=True)
        await future

    run(test)


@pytest.mark.parametrize("resolved", [False, True])
def test_a_task_is_cancelled_while_it_waits(resolved: bool) -> None:
    async def test() -> None:
        future, seen = PromptFuture(asyncio.get_running_loop()), list[str]()
        task = asyncio.create_task(waiting(future, seen))
        await asyncio.sleep(0)
        if resolved:
            future.resolve(prompt=True)  # within this task: the other one has not gone on yet
        assert task.cancel()
        assert not future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["cancelled"]

    run(test)


def test_a_pool_uses_its_tasks_again_and_ends_them_when_it_is_closed() -> None:
    async def test() -> None:
        pool, tasks = TaskPool(most_idle=1), list[asyncio.Task[None] | None]()

        async def answer() -> None:
            tasks.append(asyncio.current_task())

        first = pool.run(answer())
        await asyncio.sleep(0)
        assert tasks == [first]
        assert not first.done()

        def begin() -> None:
            assert pool.run(answer()) is first
            assert tasks == [first, first]

        await from_callback(begin)
        assert pool.busy == 0
        pool.close()
        await asyncio.gather(first, return_exceptions=True)
        assert first.cancelled()
        late = pool.run(answer())
        await asyncio.wait_for(late, 1)

    run(test)


def test_many_coroutines_begin_in_a_later_turn() -> None:
    async def test() -> None:
        pool, go_on, began = TaskPool(most_idle=2 * FEW), asyncio.Event(), list[int]()

        async def answer(number: int) -> None:
            began.append(number)
            await go_on.wait()

        for number in range(FEW + 1):
            pool.run(answer(number))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.sleep(0.01)
        began.clear()
        go_on.clear()

        def begin() -> None:
            for number in range(FEW + 1):
                pool.run(answer(number))
            assert began == list(range(FEW))

        await from_callback(begin)
        await asyncio.sleep(0)
        assert began == list(range(FEW + 1))
        go_on.set()
        pool.close()

    run(test)


def test_a_task_whose_coroutine_was_cancelled_is_not_used_again() -> None:
    async def test() -> None:
        pool = TaskPool(most_idle=4)
        first = pool.run(asyncio.sleep(60))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert pool.busy == 0
        assert pool.run(asyncio.sleep(0)) is not first
        pool.close()

    run(test)
