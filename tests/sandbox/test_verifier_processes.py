"""Processes in a verifier's sandbox: none can write another's memory, and none outlives its parent unseen."""

from __future__ import annotations

import pytest

from assay.environments.capabilities import CountsOrphans
from assay.environments.interface import WorkspaceSpec

WRITE_PARENT = """
import os
with open(f"/proc/{os.getppid()}/maps") as maps:
    start = next(int(line.partition("-")[0], 16) for line in maps if "heap" in line)
with open(f"/proc/{os.getppid()}/mem", "r+b", buffering=0) as memory:
    memory.seek(start)
    memory.write(b"x")
print("written")
"""


async def overwrite_parent(workspace) -> str:
    await workspace.write("/tmp/write.py", WRITE_PARENT.encode())
    result = await workspace.exec("python3 -I -S /tmp/write.py; echo shell goes on")
    return result.stdout + result.stderr


@pytest.mark.asyncio
async def test_a_program_cannot_write_the_memory_of_the_shell_that_judges_it(backend):
    verifier = await backend.open(WorkspaceSpec(user="verifier"))
    said = await overwrite_parent(verifier)
    assert "Read-only file system" in said
    assert "shell goes on" in said


@pytest.mark.asyncio
async def test_the_same_write_works_where_nothing_is_judged(box):
    assert "written" in await overwrite_parent(box)


@pytest.mark.asyncio
@pytest.mark.parametrize(("command", "count"), [
    ("true | cat; (true); sleep 0.01 & wait", 0), ("sh -c 'sleep 0.05 &'; sleep 0.3", 1),
])  # fmt: skip
async def test_processes_that_outlive_their_parent_are_counted(box, command, count):
    assert isinstance(box, CountsOrphans)
    await box.exec(command)
    assert await box.orphans() == count
