"""Archives each task of a run, so that its verdicts can be reproduced.

A task is stored once per run, content-addressed; each chain names it in evidence of the kind `task`. Tasks that contain
a secret or are too large are left out, and the evidence says so.
"""

from __future__ import annotations

import asyncio
import platform
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.environments.interface import WorkspaceSpec
from assay.environments.task_digest import digest_code
from assay.errors import StoreError, UserError
from assay.records import Evidence, Task, canonical_bytes, digest_bytes
from assay.rollout.recording.redaction import Redactor
from assay.store import BlobStore, TreeTooLarge, store_tree, write_tree
from assay.tasks import LoadedTask, load_task
from assay.tasks.folder import scan

MOST_TASK = 256 << 20
"""Largest total size, in bytes, of a task's archived files."""
AGENT_SANDBOX = "agent_sandbox"
"""Kind of the evidence of a sandbox in which a world was served to an agent's programs."""

DISTURBED = "disturbed"
"""Key of a disturbed task's metadata: the disturbances, and the digest of the task that it is made of."""


class EvidenceData(NamedTuple):
    """Data and blobs for new evidence."""

    data: dict[str, object]
    blobs: tuple[str, ...] = ()


class TaskArchive:
    """Archives the tasks of one run."""

    def __init__(self, blobs: BlobStore, redactor: Redactor) -> None:
        self._blobs = blobs
        self._redactor = redactor
        self._archived: dict[str, asyncio.Task[EvidenceData]] = {}

    async def keep(self, loaded: LoadedTask) -> EvidenceData:
        """Returns the data of the `task` evidence: `record` and `listing` are blobs; `left_out` is the reason for a
        missing one; `code` are the digests of the files of code that the task names, of which nothing is archived."""
        record = canonical_bytes(loaded.task)
        key = f"{digest_bytes(record)} {loaded.folder}"
        if key not in self._archived:
            self._archived[key] = asyncio.create_task(asyncio.to_thread(self._keep, loaded, record))
        return await asyncio.shield(self._archived[key])

    def _keep(self, loaded: LoadedTask, record: bytes) -> EvidenceData:
        data: dict[str, object] = {"digest": loaded.task.digest}
        try:
            self._look(record)
            code = digest_code_of(loaded)
            data |= {"code": code} if code else {}
            data["record"] = record_digest = self._blobs.put(record)
            if loaded.folder is None:
                return EvidenceData(data, (record_digest,))
            tree = scan(loaded.folder)
            names = [*tree.folders, *(entry.path for entry in tree.entries)]
            files = store_tree(self._blobs, tree.root, names, most_bytes=MOST_TASK, inspect=self._look)
        except (_HoldsSecretError, TreeTooLarge, OSError, UserError) as exc:
            left_out = f"{exc}"[:300]
            blobs = (str(data["record"]),) if "record" in data else ()
            return EvidenceData({**data, "left_out": left_out}, blobs)
        data |= {"listing": files.listing, "files": files.files, "bytes": files.bytes}
        return EvidenceData(data, (record_digest, files.listing))

    def _look(self, data: bytes) -> None:
        """Raises `_HoldsSecretError` if the data contains a known secret; key-shaped text is allowed in a task."""
        names = self._redactor.clean(data, shapes=False).names
        if names:
            raise _HoldsSecretError(f"it holds the value of {', '.join(names)}, which no record may hold")


class _HoldsSecretError(ValueError):
    """The data contains a value that no record may hold."""


def restore_task(evidence: Evidence, blobs: BlobStore, folder: Path) -> LoadedTask:
    """Restores an archived task from its evidence of the kind `task`; its files, if any, go into a new folder.

    Raises:
        StoreError: The archive is incomplete, or a blob is missing or changed.
    """
    record, listing = evidence.data.get("record"), evidence.data.get("listing")
    left_out = evidence.data.get("left_out")
    if left_out is not None or not isinstance(record, str):
        raise StoreError(f"the run kept no whole copy of the task: {left_out or 'it names none'}")
    task = read_task_record(blobs, record)
    if not isinstance(listing, str):
        return LoadedTask(task, None)
    try:
        write_tree(blobs, listing, folder)
        loaded = load_task(folder)
    except (OSError, UserError) as exc:
        raise StoreError(f"the kept copy of the task cannot be read: {exc}") from exc
    expected = undisturbed_digest(task)
    if loaded.task.digest != expected:
        raise StoreError(
            f"the kept copy of the task has the digest {loaded.task.digest}, and its record says {expected}"
        )
    return loaded._replace(task=task)


def digest_code_of(loaded: LoadedTask) -> dict[str, str]:
    """Returns the digests of the files of code that a task and its steps name, by name."""
    return digest_code(loaded.task.environment, (*loaded.task.checks, *(step.check for step in loaded.steps)))


def undisturbed_digest(task: Task) -> str:
    """Returns the digest of the task that a disturbed one is made of; of any other task, its own."""
    found = task.metadata.get(DISTURBED)
    return str(found["digest"]) if isinstance(found, dict) and "digest" in found else task.digest


def read_task_record(blobs: BlobStore, record: str) -> Task:
    """Returns the task of a record, without its files. Raises `StoreError` if it is missing or cannot be decoded."""
    try:
        return msgspec.json.decode(blobs.get(record), type=Task)
    except msgspec.DecodeError as exc:
        raise StoreError(f"{record} is not a task of this version: {exc}") from exc


def sandbox_facts(spec: WorkspaceSpec, backend: str) -> dict[str, Any]:
    """Returns the properties of a sandbox, without values of variables and without host paths."""
    from assay.environments.workspace.toolchain import HOME  # late: an in-process world needs no sandbox

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
    """Returns the host's identity; its tools are the base of images that bring none."""
    try:
        told = platform.freedesktop_os_release()
    except OSError:
        told = {}
    system = f"{told.get('ID', 'unknown')} {told.get('VERSION_ID', '')}".strip()
    return {"system": system, "kernel": platform.release(), "machine": platform.machine()}
