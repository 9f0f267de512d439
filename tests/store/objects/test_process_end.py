"""A process may end while requests to a place are under way: obstore's threads do not abort it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.optional import require_packages

require_packages("obstore")
PROGRAM = """
import asyncio, sys
from assay.store.objects import open_place

async def main():
    place = open_place(sys.argv[1], create=True)

    async def read(number):
        try:
            await place.read(f"k{number}")
        except FileNotFoundError:
            pass

    tasks = [asyncio.ensure_future(read(number)) for number in range(100)]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

asyncio.run(main())
"""


@pytest.mark.long
def test_a_process_ends_with_requests_under_way(tmp_path: Path) -> None:
    """Without the wait at its end, a third of the processes were aborted."""
    command = [sys.executable, "-c", PROGRAM, f"file://{tmp_path}/objects"]
    ended = [subprocess.run(command, capture_output=True, timeout=60) for _ in range(10)]
    assert [(one.returncode, one.stderr) for one in ended] == [(0, b"")] * 10
