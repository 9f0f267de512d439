"""Writes task folders atomically.

A draft is written to a temporary folder, validated by loading, and renamed. Invariant: a folder that `write_task`
leaves is complete and loads without an error, and no path of the draft escapes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import tomli_w

from assay.errors import UserError, describe_os_error

from .assay_config import AssayTable
from .findings import InvalidTask
from .folder import FILES, FOLDERS
from .harbor_config import SCHEMA_VERSIONS, HarborTask
from .load import LoadedTask, load_task

SECTIONS = ("schema_version", "source", "multi_step_reward_strategy", "artifacts", "task", "metadata")


class TaskDraft(msgspec.Struct, frozen=True):
    """A task to be written."""

    files: Mapping[str, str | bytes]
    """Relative POSIX path to content: `instruction.md`, `tests/test.sh`, `environment/Dockerfile`, ..."""
    config: HarborTask = HarborTask()
    """`task.toml`; its `metadata` may hold anything but the key `assay`."""
    assay: AssayTable = AssayTable()
    """`[metadata.assay]`."""
    trees: Mapping[str, Path] = {}
    """Relative folder to a host folder whose files are copied there; links are copied as links."""
    executable: tuple[str, ...] = ()
    """Paths that get the execute bit; `*.sh` and what starts with `#!` gets it anyway."""


def write_task(folder: Path, draft: TaskDraft, *, replace: bool = False) -> LoadedTask:
    """Writes a task folder, in place of an existing one if `replace`, and loads it.

    Raises:
        UserError: The folder exists, a path of the draft is not inside the task, the task would not load, or the
            disk refuses. Nothing is left behind.
    """
    folder = Path(os.path.abspath(folder))  # noqa: PTH100 - a link in its place is replaced, not followed
    if os.path.lexists(folder) and not replace:
        raise UserError(f"{folder} exists already; choose another folder or remove it")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".assay-write-", dir=folder.parent) as holder:
            fresh = Path(holder) / folder.name
            fresh.mkdir()
            _fill(fresh, draft)
            _check(fresh, folder)
            _put(fresh, folder, Path(holder))
    except OSError as exc:
        raise UserError(f"the task cannot be written: {describe_os_error(exc, folder)}") from exc
    return load_task(folder)


def draft_toml(draft: TaskDraft) -> str:
    """Returns the text of `task.toml` without defaults, except the schema version."""
    data: dict[str, Any] = msgspec.to_builtins(draft.config)
    data["schema_version"] = SCHEMA_VERSIONS[-1]
    ours = msgspec.to_builtins(draft.assay)
    if "assay" in data.get("metadata", {}):
        raise UserError("the draft's config.metadata holds the key 'assay'; use the draft's own field `assay` for it")
    if ours:
        data["metadata"] = {**data.get("metadata", {}), "assay": ours}
    ordered = {key: data.pop(key) for key in SECTIONS if key in data} | data
    return tomli_w.dumps(_listed(ordered))


def _listed(value: Any) -> Any:
    """Returns the data with lists in place of tuples, without None."""
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_listed(item) for item in value]
    return value


def _fill(fresh: Path, draft: TaskDraft) -> None:
    for at, source in draft.trees.items():
        target = fresh / _inside(at)
        if not source.is_dir():
            raise UserError(f"{source} is not a folder; the draft copies it to {at} of the task")
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    for at, content in {"task.toml": draft_toml(draft), **draft.files}.items():
        data = content.encode() if isinstance(content, str) else content
        path = fresh / _inside(at)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            path.unlink()
        path.write_bytes(data)
        runs = at.endswith(".sh") or data.startswith(b"#!") or at in draft.executable
        path.chmod(0o755 if runs else 0o644)
    (fresh / "environment").mkdir(exist_ok=True)


def _inside(at: str) -> PurePosixPath:
    path = PurePosixPath(at)
    if path.is_absolute() or ".." in path.parts or "\0" in at or not path.parts:
        raise UserError(f"the draft's path {at!r} is not inside the task; use a relative path without '..'")
    if path.parts[0] not in FOLDERS and (len(path.parts) > 1 or at not in (*FILES, ".gitignore")):
        raise UserError(
            f"the draft's path {at!r} is not part of a task; use {', '.join(FOLDERS)} or {', '.join(FILES)}"
        )
    return path


def _check(fresh: Path, folder: Path) -> None:
    try:
        load_task(fresh)
    except InvalidTask as exc:
        raise InvalidTask(str(folder), exc.findings) from exc


def _put(fresh: Path, folder: Path, holder: Path) -> None:
    if os.path.lexists(folder):
        folder.rename(holder / ".old")
    fresh.rename(folder)
