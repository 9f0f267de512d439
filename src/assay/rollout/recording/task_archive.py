"""What a run keeps so that its verdicts can be given again: each task's record and files, and what its sandbox was.

A task is kept once a run, content-addressed; each chain names it in an evidence of the kind `task`. What holds a value
that must not be stored, or is too large, is left out, and the evidence says so.
"""

from __future__ import annotations

import asyncio
import platform
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.environments.interface import WorkspaceSpec
from assay.environments.workspace.toolchain import HOME
from assay.errors import StoreError, UserError
from assay.records import Evidence, Task, canonical_bytes, digest_bytes
from assay.rollout.recording.redaction import Redactor
from assay.store import BlobStore, TreeTooLarge, store_tree, write_tree
from assay.tasks import LoadedTask, load_task
from assay.tasks.folder import scan

__all__ = ["MOST_TASK", "Fact", "TaskKeeper", "kept_task", "place_of"]

MOST_TASK = 256 << 20
"""Bytes of a task's files, at most, that a run keeps."""


class Fact(NamedTuple):
    """Data and blobs of an evidence that is to be added."""

    data: dict[str, object]
    blobs: tuple[str, ...] = ()


class TaskKeeper:
    """Keeps the tasks of one run."""

    def __init__(self, blobs: BlobStore, redactor: Redactor) -> None:
        self._blobs = blobs
        self._redactor = redactor
        self._kept: dict[str, asyncio.Task[Fact]] = {}

    async def keep(self, loaded: LoadedTask) -> Fact:
        """What the evidence `task` says: `record` and `listing` are blobs; `left_out` says why one is not there."""
        record = canonical_bytes(loaded.task)
        key = f"{digest_bytes(record)} {loaded.folder}"
        if key not in self._kept:
            self._kept[key] = asyncio.create_task(asyncio.to_thread(self._keep, loaded, record))
        return await asyncio.shield(self._kept[key])

    def _keep(self, loaded: LoadedTask, record: bytes) -> Fact:
        data: dict[str, object] = {"digest": loaded.task.digest}
        try:
            self._look(record)
            data["record"] = kept = self._blobs.put(record)
            if loaded.folder is None:
                return Fact(data, (kept,))
            tree = scan(loaded.folder)
            names = [*tree.folders, *(entry.path for entry in tree.entries)]
            files = store_tree(self._blobs, tree.root, names, most_bytes=MOST_TASK, inspect=self._look)
        except (_HoldsSecretError, TreeTooLarge, OSError, UserError) as exc:
            left_out = f"{exc}"[:300]
            blobs = (str(data["record"]),) if "record" in data else ()
            return Fact({**data, "left_out": left_out}, blobs)
        data |= {"listing": files.listing, "files": files.files, "bytes": files.bytes}
        return Fact(data, (kept, files.listing))

    def _look(self, data: bytes) -> None:
        """A task may hold text that looks like a key; the values that this run was given are what must not be kept."""
        names = self._redactor.clean(data, shapes=False).names
        if names:
            raise _HoldsSecretError(f"it holds the value of {', '.join(names)}, which no record may hold")


class _HoldsSecretError(ValueError):
    """What was to be kept holds a value that no record may hold."""


def kept_task(evidence: Evidence, blobs: BlobStore, folder: Path) -> LoadedTask:
    """The task as a run kept it.

    Args:
        evidence: Of the kind `task`.
        blobs: The store's.
        folder: Where its files are written; must not exist yet. Not used for a task without files.

    Raises:
        StoreError: It was not kept whole, or a blob is gone or was changed.
    """
    record, listing = evidence.data.get("record"), evidence.data.get("listing")
    left_out = evidence.data.get("left_out")
    if left_out is not None or not isinstance(record, str):
        raise StoreError(f"the run kept no whole copy of the task: {left_out or 'it names none'}")
    try:
        task = msgspec.json.decode(blobs.get(record), type=Task)
    except msgspec.DecodeError as exc:
        raise StoreError(f"{record} is no task of this version: {exc}") from exc
    if not isinstance(listing, str):
        return LoadedTask(task, None)
    try:
        write_tree(blobs, listing, folder)
        loaded = load_task(folder)
    except (OSError, UserError) as exc:
        raise StoreError(f"the kept copy of the task cannot be read: {exc}") from exc
    if loaded.task.digest != task.digest:
        raise StoreError(
            f"the kept copy of the task has the digest {loaded.task.digest}, and its record says {task.digest}"
        )
    return loaded._replace(task=task)


def place_of(spec: WorkspaceSpec, backend: str) -> dict[str, Any]:
    """What a sandbox was made of, without the values of variables and without paths of the host."""
    tools = next((Path(mount.source).name for mount in spec.mounts if mount.target == HOME), None)
    return {
        "backend": backend,
        "image": spec.image.digest,
        "base": None if spec.image.root else _host(),
        "tools": tools,
        "workdir": spec.workdir,
        "env": sorted(spec.env),
        "network": spec.network,
        "user": spec.user,
        "mounts": [mount.target for mount in spec.mounts],
        "masks": list(spec.masks),
        "tmpfs": list(spec.tmpfs),
        "limits": msgspec.to_builtins(spec.limits),
    }


@cache
def _host() -> dict[str, str]:
    """The machine whose tools are the base of images that bring none."""
    try:
        told = platform.freedesktop_os_release()
    except OSError:
        told = {}
    system = f"{told.get('ID', 'unknown')} {told.get('VERSION_ID', '')}".strip()
    return {"system": system, "kernel": platform.release(), "machine": platform.machine()}
