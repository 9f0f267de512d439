"""Snapshots of a live sandbox, taken only where a snapshot captures the whole state."""

from __future__ import annotations

from typing import NamedTuple

from assay.environments.interface import Snapshot, Workspace
from assay.errors import EnvironmentFailure


class LiveSnapshot(NamedTuple):
    """A snapshot, or the reason for its absence."""

    snapshot: Snapshot | None
    note: str | None = None


async def snapshot_live_state(workspace: Workspace) -> LiveSnapshot:
    """Takes a snapshot, unless a process runs (the snapshot would end it) or files lie outside the captured state."""
    running = [p for p in await workspace.processes() if p.state != "Z"]
    if running:
        return LiveSnapshot(None, f"{len(running)} processes run, which a snapshot would end")
    folders = ["/tmp", "/dev/shm", *workspace.spec.tmpfs]
    result = await workspace.exec(["find", *folders, "-mindepth", "1", "-print", "-quit"], cwd="/", timeout_s=30)
    if result.stdout.strip() or result.exit_code not in (0, 1):
        return LiveSnapshot(None, f"{result.stdout.strip()[:80] or 'something'} is not part of a state")
    try:
        return LiveSnapshot(await workspace.snapshot())
    except EnvironmentFailure as exc:
        return LiveSnapshot(None, str(exc))
