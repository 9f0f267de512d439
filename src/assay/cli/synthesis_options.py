"""The options that a folder of tasks was made with, so that another command does not replace its tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from assay.errors import UserError, add_filename

OPTIONS_FILE = "synthesis-options.json"
_WITHOUT_EFFECT = ("out", "concurrency")


def record_options(config: msgspec.Struct) -> None:
    """Writes the options of a synthesis into its folder, before it starts.

    Raises:
        UserError: The folder holds tasks that were made with other options, which would be removed.
        OSError: The folder cannot be written.
    """
    fields: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(config))
    options = {"command": type(config).__name__} | {k: v for k, v in fields.items() if k not in _WITHOUT_EFFECT}
    folder = Path(config.out)  # type: ignore[attr-defined]
    path = folder / OPTIONS_FILE
    if (folder / "manifest.json").exists():
        _require_same(folder, _read(path), options)
    with add_filename(path):
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / f".{OPTIONS_FILE}.part"
        aside.write_bytes(msgspec.json.format(msgspec.json.encode(options), indent=1) + b"\n")
        aside.rename(path)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return None


def _require_same(folder: Path, recorded: dict[str, Any] | None, options: dict[str, Any]) -> None:
    if recorded == options:
        return
    if recorded is None:
        raise UserError(f"{folder} holds tasks, and nothing says how they were made: name a new folder, or remove it")
    names = sorted(name for name in (recorded.keys() | options.keys()) if recorded.get(name) != options.get(name))
    raise UserError(
        f"{folder} holds tasks that were made with other values of {', '.join(names)}: name a new folder, or remove it"
    )
