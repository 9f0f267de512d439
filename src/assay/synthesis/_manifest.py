"""Writes `manifest.json` beside a set's tasks; the manifest defines the set."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec

from assay.errors import add_filename


def write_manifest(out: Path, report: msgspec.Struct) -> None:
    """Writes a report atomically."""
    text = msgspec.json.format(msgspec.json.encode(report, order="deterministic"), indent=1)
    aside = out / ".manifest.json.part"
    with add_filename(out / "manifest.json"):
        aside.write_bytes(text + b"\n")
        aside.rename(out / "manifest.json")


def remove_stale_tasks(out: Path, retained: set[str]) -> None:
    """Removes tasks that the previous manifest lists and the new one does not."""
    try:
        manifest = msgspec.json.decode((out / "manifest.json").read_bytes(), type=_ManifestTasks)
    except (FileNotFoundError, msgspec.MsgspecError):
        return
    for entry in manifest.tasks:
        folder = out / entry.id
        if entry.id not in retained and re.fullmatch(r"[a-z0-9-]+", entry.id) and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)


class _ManifestTask(msgspec.Struct):
    id: str


class _ManifestTasks(msgspec.Struct):
    """Fields of a manifest that name its tasks."""

    tasks: tuple[_ManifestTask, ...] = ()
