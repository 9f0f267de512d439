"""Keeps the state of a living sandbox, where a snapshot holds all that there is."""

from __future__ import annotations

from typing import NamedTuple

from assay.environments.interface import Snapshot, Workspace
from assay.errors import EnvironmentFailure

__all__ = ["Kept", "state_of"]


class Kept(NamedTuple):
    """A state, kept or not."""

    snapshot: Snapshot | None
    note: str | None = None
    """Why there is none."""


async def state_of(workspace: Workspace) -> Kept:
    """A snapshot; none where processes run, which it would end, or where something lies in folders that are no part of
    a state."""
    running = [p for p in await workspace.processes() if p.state != "Z"]
    if running:
        return Kept(None, f"{len(running)} processes run, which a snapshot would end")
    folders = ["/tmp", "/dev/shm", *workspace.spec.tmpfs]
    looked = await workspace.exec(["find", *folders, "-mindepth", "1", "-print", "-quit"], cwd="/", timeout_s=30)
    if looked.stdout.strip() or looked.exit_code not in (0, 1):
        return Kept(None, f"{looked.stdout.strip()[:80] or 'something'} is no part of a state")
    try:
        return Kept(await workspace.snapshot())
    except EnvironmentFailure as exc:
        return Kept(None, str(exc))
