"""After a snapshot nothing runs until it is needed, and the snapshot is independent of who made it."""

from __future__ import annotations

import asyncio

import pytest

from assay.environments.interface import Workspace
from assay.environments.workspace.namespaces import NamespacesBackend
from assay.errors import EnvironmentFailure


async def test_nothing_runs_until_something_is_needed(box: Workspace, backend: NamespacesBackend) -> None:
    await box.write("/workspace/a", b"1")
    before = await box.digest()
    state = await box.snapshot()
    assert await box.processes() == ()
    await box.kill_all()
    assert await box.digest() == before == state.digest
    assert (await box.exec(["cat", "/workspace/a"])).stdout == "1"


async def test_calls_at_once_wake_one_sandbox(box: Workspace) -> None:
    await box.snapshot()
    results = await asyncio.gather(*(box.exec(f"echo {n} > /workspace/{n}") for n in range(4)))
    assert [r.exit_code for r in results] == [0] * 4
    assert (await box.exec("ls /workspace | wc -l")).stdout.strip() == "4"


async def test_snapshots_in_a_row_each_open(box: Workspace, backend: NamespacesBackend) -> None:
    first, second = await box.snapshot(), await box.snapshot()
    assert first.digest == second.digest
    await backend.release(first)
    other = await backend.open(box.spec, state=second)
    assert (await other.exec(["true"])).exit_code == 0
    await other.close()


async def test_a_snapshot_outlives_the_workspace_that_slept_on_it(box: Workspace, backend: NamespacesBackend) -> None:
    await box.write("/workspace/a", b"kept")
    state = await box.snapshot()
    await box.close()
    with pytest.raises(EnvironmentFailure, match="closed"):
        await box.exec(["true"])
    other = await backend.open(box.spec, state=state)
    assert await other.read("/workspace/a") == b"kept"
    await other.close()
    await backend.release(state)
