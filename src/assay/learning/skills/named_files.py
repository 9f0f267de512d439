"""Digests of the files that a trial names: who changes the agent's file in the middle of a trial has another trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from assay.plugins import path_in
from assay.records import digest_bytes

_MOST = 64 << 20


def digest_named_files(agent: str, model: str | None, options: Mapping[str, Any]) -> dict[str, str]:
    """Returns the digests of the files that are the agent, or that the model's name or an option names, by what names
    them. Not covered: modules that a file imports, folders, and what is after the first 64 MiB."""
    found = {}
    named = path_in("agents", agent)
    if named is not None and named[0].is_file():
        found[agent] = _digest(named[0])
    for text in (*texts_in(options), *([] if model is None else [model])):
        for part in (text, *text.split(":")):
            try:
                is_file = bool(part) and Path(part).is_file()
            except (OSError, ValueError):
                continue
            if is_file:
                found[part] = _digest(Path(part))
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return digest_bytes(file.read(_MOST))


def texts_in(value: object) -> Iterator[str]:
    """Yields the texts in plain data, keys too."""
    if isinstance(value, Mapping):
        for one in (*value.keys(), *value.values()):
            yield from texts_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_in(one)
    elif isinstance(value, str) and value:
        yield value
