"""The file `manifest.json` beside a set's tasks: a set is its manifest's tasks."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec

__all__ = ["remove_older", "write_manifest"]


def write_manifest(out: Path, report: msgspec.Struct) -> None:
    """Writes a report, whole or not at all."""
    text = msgspec.json.format(msgspec.json.encode(report, order="deterministic"), indent=1)
    aside = out / ".manifest.json.part"
    aside.write_bytes(text + b"\n")
    aside.rename(out / "manifest.json")


def remove_older(out: Path, wanted: set[str]) -> None:
    """Removes the tasks that an older manifest here lists and the new one will not: a set is its manifest's tasks."""
    try:
        older = msgspec.json.decode((out / "manifest.json").read_bytes(), type=_Older)
    except (FileNotFoundError, msgspec.MsgspecError):
        return
    for entry in older.tasks:
        folder = out / entry.id
        if entry.id not in wanted and re.fullmatch(r"[a-z0-9-]+", entry.id) and not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)


class _OlderTask(msgspec.Struct):
    id: str


class _Older(msgspec.Struct):
    """As much of a manifest as is needed to find its tasks."""

    tasks: tuple[_OlderTask, ...] = ()
