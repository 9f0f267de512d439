"""Ends of pipes in asyncio and in uvloop, which closes them itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from assay.environments.pipe_end import PipeEnd

pytestmark = pytest.mark.quick
RUNS = {"asyncio": asyncio.run, "uvloop": uvloop.run}


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    return RUNS[request.param]


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_pipe_is_read_and_closed(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    async def read() -> None:
        read_fd, write_fd = os.pipe()
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), PipeEnd(read_fd))
        os.write(write_fd, b"a line\n")
        assert await reader.readline() == b"a line\n"
        assert _is_open(read_fd)
        transport.close()
        await asyncio.sleep(0.01)
        assert not _is_open(read_fd)
        os.close(write_fd)

    run(read())


def test_one_that_was_given_up_closes_no_descriptor_of_another(
    run: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def give_up() -> None:
        read_fd, write_fd = os.pipe()
        end = PipeEnd(read_fd)
        connecting = asyncio.ensure_future(asyncio.get_running_loop().connect_read_pipe(asyncio.Protocol, end))
        await asyncio.sleep(0)
        connecting.cancel()
        await asyncio.wait([connecting])
        await asyncio.sleep(0.01)
        others = [os.open(os.devnull, os.O_RDONLY)]
        while read_fd not in others:  # a lower number may have become free
            others.append(os.open(os.devnull, os.O_RDONLY))
        end.close()
        del end, connecting
        assert _is_open(read_fd)
        for fd in (*others, write_fd):
            os.close(fd)

    run(give_up())
