"""Where an attempt happens: a sandboxed workspace, or an in-process world. One `Place` serves one try.

Invariant: the agent's sandbox is closed before anything is judged, and judging sees only the sealed final state.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from assay.environments.interface import (
    Backend,
    PackedState,
    PacksStates,
    Snapshot,
    Workspace,
    WorkspaceSpec,
    World,
)
from assay.environments.tools import WorkspaceTools
from assay.records import Isolation, Task, canonical_bytes
from assay.store import BlobStore
from assay.verify.facts import judge_facts
from assay.verify.interface import CheckResult

from .attempt import LiveAttempt
from .recorded import RecordedWorkspace
from .recorder import Recorder

__all__ = ["Place", "WorkspacePlace", "WorldPlace"]

NOT_NEEDED = Isolation("not needed")
Prepare = Callable[[], Awaitable[WorkspaceSpec]]
"""Makes (or finds) what a sandbox needs: image, tool layer, limits."""


class Place(Protocol):
    """The life of a place: open, settle, judge, close."""

    isolation: Isolation | None

    async def open(self, attempt: LiveAttempt, recorder: Recorder) -> None:
        """Makes the place and gives it to the attempt. Raises `EnvironmentFailure` or `TaskError`."""
        ...

    async def settle(self, recorder: Recorder) -> None:
        """Stops everything that the agent left and seals the final state."""
        ...

    async def judge(self, task: Task) -> tuple[CheckResult, ...]:
        """Judges the sealed state."""
        ...

    async def close(self) -> None:
        """Releases everything. Idempotent."""
        ...


class WorkspacePlace:
    """A sandbox."""

    def __init__(
        self, backend: Backend, prepare: Prepare, blobs: BlobStore, folder: Path | None, repetitions: int
    ) -> None:
        self.isolation: Isolation | None = None
        self._backend = backend
        self._prepare = prepare
        self._spec = WorkspaceSpec()
        self._blobs = blobs
        self._folder = folder
        self._repetitions = repetitions
        self._workspace: Workspace | None = None
        self._final: Snapshot | None = None

    async def open(self, attempt: LiveAttempt, recorder: Recorder) -> None:
        """See `Place.open`."""
        self._spec = await self._prepare()
        self._workspace = await self._backend.open(self._spec)
        self.isolation = self._workspace.isolation
        recorded = RecordedWorkspace(self._workspace, recorder, self._blobs)
        attempt.workspace = recorded
        attempt.tools = WorkspaceTools(recorded)

    async def settle(self, recorder: Recorder) -> None:
        """See `Place.settle`. What was still running is recorded, then killed."""
        if self._workspace is None:
            return
        left = await self._workspace.processes()
        if left:
            listed = [{"pid": p.pid, "parent": p.parent, "command": p.command[:500]} for p in left[:100]]
            recorder.evidence("state", "processes", {"when": "agent stopped", "count": len(left), "processes": listed})
        self._final = await self._workspace.snapshot()
        await self._workspace.close()
        kept = await keep_state(self._backend, self._final, self._blobs)
        data = {
            "digest": self._final.digest,
            "image": self._final.image.digest,
            "notes": list(self._final.image.notes),
            "changes": len(self._final.changes),
            "manifest": kept[0] if kept else None,
        }
        recorder.evidence("state", "snapshot", data, (kept[0], *kept[1]) if kept else ())

    async def judge(self, task: Task) -> tuple[CheckResult, ...]:
        """See `Place.judge`."""
        if self._final is None:
            return ()
        from assay.verify import JudgeRequest, verify_outcome

        request = JudgeRequest(
            task=task,
            folder=self._folder,
            backend=self._backend,
            spec=self._spec,
            state=self._final,
            blobs=self._blobs,
            repetitions=self._repetitions,
        )
        return await verify_outcome(request)

    async def close(self) -> None:
        """See `Place.close`."""
        if self._workspace is not None:
            await self._workspace.close()
        if self._final is not None:
            await self._backend.release(self._final)
            self._final = None


class WorldPlace:
    """An in-process world: no agent code runs, so there is nothing to isolate."""

    def __init__(self, world: World) -> None:
        self.isolation: Isolation | None = NOT_NEEDED
        self._world = world

    async def open(self, attempt: LiveAttempt, recorder: Recorder) -> None:
        """See `Place.open`."""
        attempt.tools = self._world

    async def settle(self, recorder: Recorder) -> None:
        """See `Place.settle`."""
        recorder.evidence("state", "facts", {"facts": self._world.facts(), "digest": await self._world.digest()})

    async def judge(self, task: Task) -> tuple[CheckResult, ...]:
        """See `Place.judge`."""
        return judge_facts(task, self._world.facts())

    async def close(self) -> None:
        """See `Place.close`."""
        await self._world.close()


async def keep_state(backend: Backend, state: Snapshot, blobs: BlobStore) -> tuple[str, tuple[str, ...]] | None:
    """Stores a sealed state so that it can be rebuilt from the store alone.

    Returns:
        The digest of its manifest (the canonical JSON of `state.changes`) and those of its files; None where the
        backend cannot hand its states out.
    """
    if not isinstance(backend, PacksStates):
        return None
    packed = await backend.pack(state)
    if not packed.manifest:
        return blobs.put(canonical_bytes(())), ()
    return await asyncio.to_thread(_keep_files, packed, blobs)


def _chunks(handle: BinaryIO) -> Iterator[bytes]:
    while chunk := handle.read(1 << 20):
        yield chunk


def _keep_files(packed: PackedState, blobs: BlobStore) -> tuple[str, tuple[str, ...]]:
    kept = []
    for change, handle in packed.files():
        if change.digest is None or not blobs.has(change.digest):
            kept.append(blobs.put_stream(_chunks(handle)))
        else:
            kept.append(change.digest)
    return blobs.put(canonical_bytes(packed.manifest)), tuple(dict.fromkeys(kept))
