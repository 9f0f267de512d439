"""Commands that a task defines around the agent's acts: health check, setup, collection, artifacts.

Failures of these commands are recorded; only a failed health check or setup ends the trial, as a task error.
"""

from __future__ import annotations

import asyncio
import stat
import tempfile
import time
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from assay.environments.interface import Workspace
from assay.errors import TaskError
from assay.rollout.recording.recorder import Recorder
from assay.store import BlobStore

ARTIFACT_BYTES = 256 * 1024 * 1024
"""Total size of an attempt's artifacts; files beyond it are recorded as left out."""


async def await_healthy(workspace: Workspace, healthcheck: dict[str, Any]) -> None:
    """Runs the health check until it succeeds. Raises `TaskError` after `retries` failures in a row.

    Failures within the first `start_period_sec` do not count.
    """
    began = time.monotonic()
    start_s = float(healthcheck.get("start_period_sec", 0.0))
    failures = 0
    while True:
        result = await workspace.exec(healthcheck["command"], timeout_s=float(healthcheck.get("timeout_sec", 30.0)))
        if result.exit_code == 0:
            return
        starting = time.monotonic() - began < start_s
        failures += not starting
        if failures > int(healthcheck.get("retries", 3)):
            raise TaskError(f"the health check never succeeded: exit {result.exit_code}: {result.stderr[-300:]}")
        await asyncio.sleep(float(healthcheck.get("start_interval_sec" if starting else "interval_sec", 5.0)))


async def put_step_files(workspace: Workspace, folder: Path) -> None:
    """Uploads a step's files into the working directory and runs their `setup.sh`. Raises `TaskError` on failure."""
    await workspace.upload(folder, workspace.spec.workdir)
    if not (folder / "setup.sh").is_file():
        return
    result = await workspace.exec(["sh", "setup.sh"], timeout_s=600.0)
    if result.exit_code != 0:
        raise TaskError(f"{folder.name}/setup.sh ended with {result.exit_code}: {result.stderr[-300:]}")


async def collect(workspace: Workspace, entries: Sequence[dict[str, Any]], recorder: Recorder) -> None:
    """Runs the commands that save running state to files, before the agent's processes are stopped."""
    for entry in entries:
        if entry.get("service", "main") != "main":
            recorder.note("not collected", {"service": entry["service"], "reason": "there is one service, main"})
            continue
        await workspace.exec(entry["command"], timeout_s=float(entry.get("timeout_sec", 60.0)))


async def store_artifacts(
    workspace: Workspace, entries: Sequence[dict[str, Any]], blobs: BlobStore, recorder: Recorder
) -> dict[str, str]:
    """Stores declared files of the final state as blobs; returns digests by path.

    Links are skipped. Missing, oversized and excluded files are named in the evidence.
    """
    kept: dict[str, str] = {}
    states: dict[str, str] = {}
    left = ARTIFACT_BYTES
    for entry in entries:
        source = entry["source"]
        with tempfile.TemporaryDirectory(prefix="assay-artifacts-") as temporary:
            target, cut = Path(temporary) / "kept", ""
            try:
                await workspace.download(source, target, limit=left)
            except ValueError as exc:  # what came before it was too much is kept
                cut = f": {exc}"
            except OSError as exc:
                states[source] = f"missing: {exc}"
                continue
            found = await asyncio.to_thread(_store_files, target, source, entry.get("exclude") or (), blobs, left)
        left -= sum(found.sizes)
        kept |= found.digests
        states[source] = f"too large{cut}" if found.cut or cut else ("kept" if found.digests else "empty")
    if entries:
        recorder.evidence("state", "artifacts", {"states": states, "files": kept}, tuple(kept.values()))
    return kept


class _StoredFiles:
    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self.sizes: list[int] = []
        self.cut = False


def _store_files(target: Path, source: str, exclude: Sequence[str], blobs: BlobStore, allowed: int) -> _StoredFiles:
    found = _StoredFiles()
    if not target.exists():
        return found
    for path in [target] if target.is_file() else sorted(target.rglob("*")):
        status = path.lstat()
        name = source if path == target else f"{source.rstrip('/')}/{path.relative_to(target).as_posix()}"
        if not stat.S_ISREG(status.st_mode) or any(fnmatch(name, p) or fnmatch(path.name, p) for p in exclude):
            continue
        if sum(found.sizes) + status.st_size > allowed:
            found.cut = True
            continue
        found.sizes.append(status.st_size)
        found.digests[name] = blobs.put_file(path)
    return found
