"""Rebuilds the final state of an imported attempt from the patch or the files in its record.

The patch is applied, and the files are written, in a fresh sandbox of the task; nothing of the record is executed.
"""

from __future__ import annotations

import asyncio
import posixpath

from assay.code.patches import FilePatch, PatchError, apply_patch, read_patch
from assay.environments.interface import Backend, Snapshot, Workspace, WorkspaceSpec
from assay.errors import StoreError
from assay.records import Trajectory
from assay.store import BlobStore

from .reverification import CannotRebuildError

MOST_FILE = 16 << 20


async def rebuild_imported_state(
    trajectory: Trajectory, spec: WorkspaceSpec, backend: Backend, blobs: BlobStore
) -> Snapshot:
    """Returns a snapshot of the state; the caller releases it.

    Raises:
        CannotRebuildError: The record holds no patch and no files, or they do not fit the task.
        EnvironmentFailure: The sandbox broke.
    """
    try:
        patch, files = _patch_of(trajectory, blobs), _files_of(trajectory, blobs)
    except StoreError as exc:
        raise CannotRebuildError(f"the recorded state is missing from the store: {exc}") from exc
    if patch is None and not files:
        raise CannotRebuildError("the record contains no state, neither a patch nor files of the attempt")
    workspace = await backend.open(spec)
    try:
        if patch is not None:
            await _apply(workspace, patch)
        for path, data in files.items():
            await workspace.write(path, data)
        return await workspace.snapshot()
    except (PatchError, OSError, ValueError) as exc:
        raise CannotRebuildError(f"the recorded state does not fit the task: {exc}") from exc
    finally:
        await workspace.close()


def _patch_of(trajectory: Trajectory, blobs: BlobStore) -> str | None:
    """Returns the last submitted patch, from its text or, if it is long, from its blob; None if the record has none."""
    for found in reversed(trajectory.evidence):
        if found.kind not in ("submission", "patch"):
            continue
        if found.blobs:
            return blobs.get(found.blobs[0]).decode(errors="surrogateescape")
        if isinstance(found.data.get("text"), str):
            return str(found.data["text"])
    return None


def _files_of(trajectory: Trajectory, blobs: BlobStore) -> dict[str, bytes]:
    """Returns the content of the recorded files by absolute path in the sandbox."""
    artifacts = trajectory.finished.artifacts if trajectory.finished is not None else {}
    plain = {path: digest for path, digest in artifacts.items() if path.startswith("/") and ".." not in path.split("/")}
    return {path: blobs.get(digest, limit=MOST_FILE + 1) for path, digest in plain.items()}


async def _apply(workspace: Workspace, text: str) -> None:
    top = workspace.spec.workdir
    patches = await asyncio.to_thread(read_patch, text)
    if text.strip() and not patches:
        raise PatchError("the submission is not a patch")
    for patch in patches:
        before = None if patch.old is None else await _text(workspace, posixpath.join(top, patch.old))
        await _write(workspace, top, patch, await asyncio.to_thread(apply_patch, patch, before))


async def _write(workspace: Workspace, top: str, patch: FilePatch, after: str | None) -> None:
    gone = patch.old is not None and patch.old != patch.new
    if gone and patch.old is not None:
        removed = await workspace.exec(["/bin/rm", "-f", "--", posixpath.join(top, patch.old)], cwd="/")
        if removed.exit_code != 0:
            raise OSError(f"{patch.old} cannot be removed: {removed.stderr[-200:]}")
    if patch.new is not None and after is not None:
        mode = 0o755 if patch.executable else await _mode(workspace, posixpath.join(top, patch.new))
        await workspace.write(posixpath.join(top, patch.new), after.encode(errors="surrogateescape"), mode=mode)


async def _text(workspace: Workspace, path: str) -> str | None:
    try:
        return (await workspace.read(path, limit=MOST_FILE)).decode(errors="surrogateescape")
    except FileNotFoundError:
        return None


async def _mode(workspace: Workspace, path: str) -> int:
    shown = await workspace.exec(["/bin/sh", "-c", 'test -x "$0"', path], cwd="/")
    return 0o755 if shown.exit_code == 0 else 0o644
