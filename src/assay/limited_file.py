"""Files that a user or a stranger wrote: read up to a limit, parsed, and refused in one sentence."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from .errors import UserError

T = TypeVar("T")
_MOST_PAIRED_DOTS: Final = 50_000_000
"""Reading a key of TOML takes time by the square of its parts."""
_INTEGERS: Final = range(-(1 << 63), 1 << 63)


def parse_file(path: Path, parse: Callable[[bytes], T], *, holding: str, limit: int, hint: str = "") -> T:
    """Returns the parsed content of a file.

    Args:
        path: The file.
        parse: Raises `ValueError` or `msgspec.DecodeError` for bytes that are not valid.
        holding: The expected content, for the errors, such as "a proposal of edits".
        limit: Bytes that are read at most.
        hint: How a right file is made; ends every error but that of size.

    Raises:
        UserError: The file cannot be read, is larger than the limit, or is not valid.
    """
    hint = f"; {hint}" if hint else ""
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as exc:  # a path with a null character is a ValueError
        raise UserError(f"{path} cannot be read: {getattr(exc, 'strerror', None) or exc}{hint}") from exc
    if len(data) > limit:
        raise UserError(f"{path} is larger than {limit >> 10:,} KiB, the limit for {holding}")
    try:
        return parse(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise UserError(f"{path} does not hold {holding}: {exc}{hint}") from exc


def read_toml(data: bytes) -> dict[str, Any]:
    """Returns the table of a TOML file, for `parse_file`. Raises `ValueError` or `RecursionError`."""
    if sum(line.count(b".") ** 2 for line in data.split(b"\n")) > _MOST_PAIRED_DOTS:
        raise ValueError("a line has too many dots")
    return loads_toml(data.decode())


def loads_toml(text: str) -> dict[str, Any]:
    """Returns the table of a TOML text.

    Raises:
        ValueError: It is not valid, or holds an integer of more than 64 bits: TOML has none, and no record takes one.
        RecursionError: It is nested too deeply.
    """
    table = tomllib.loads(text)
    require_64_bits(table)
    return table


def require_64_bits(table: dict[str, Any]) -> None:
    """Raises `ValueError`, with the key, for an integer of more than 64 bits."""
    todo: list[tuple[str, Any]] = [*table.items()]
    while todo:
        key, value = todo.pop()
        if isinstance(value, dict):
            todo += value.items()
        elif isinstance(value, list):
            todo += ((key, one) for one in value)
        elif isinstance(value, int) and value not in _INTEGERS:
            raise ValueError(f"{key[:60]!r} has an integer of more than 64 bits")
