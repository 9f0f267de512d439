"""Arguments of calls: as they are logged, JSON data of a bounded size with finite numbers, without characters that no
text here may have; as they are parsed, without dates and times that do not exist."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import isfinite
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from assay.records import canonical_bytes

from .schema import UNIT, alternatives, metadata
from .transaction import is_time

MOST_ARGUMENTS: Final = 256 << 10
"""Largest encoded size of the arguments of one call, in bytes."""


def readable_arguments(arguments: dict[str, Any]) -> tuple[dict[str, Any], int, str]:
    """Returns the arguments as they are logged, their encoded size, and what is wrong with them ('' if nothing).

    Arguments that cannot be stored are logged as empty.
    """
    try:
        encoded = canonical_bytes(arguments)
    except (UnicodeError, OverflowError, RecursionError, TypeError, ValueError) as exc:
        return {}, 0, f"The arguments are not JSON data: {exc}."
    if len(encoded) > MOST_ARGUMENTS:
        return {}, 0, f"The arguments are too large: at most {MOST_ARGUMENTS >> 10} KiB."
    if b"\\u0000" in encoded and any(isinstance(leaf, str) and "\0" in leaf for leaf in _leaves(arguments)):
        return {}, 0, "The arguments hold the character U+0000, which no text here may have."
    if b"null" in encoded and any(isinstance(leaf, float) and not isfinite(leaf) for leaf in _leaves(arguments)):
        return {}, 0, "The arguments hold a number that is not finite."
    return arguments, len(encoded), ""


def _leaves(value: Any) -> Iterator[Any]:
    """Yields the keys and values in JSON data that are no lists or tables."""
    waiting = [value]  # not recursive: the agent chooses the depth
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            waiting += part
        else:
            yield part


class FalseTime(NamedTuple):
    """A date or time that does not exist, such as `2026-02-30`."""

    field: str
    """Path to it, such as `days[0]`."""
    text: str


def find_false_times(arguments: msgspec.Struct) -> Iterable[FalseTime]:
    """Returns dates and times that do not exist, also those inside of lists, mappings and Structs."""
    timed = _timed_fields(type(arguments))
    if not timed:
        return ()
    return [false for name, hint in timed for false in _false_times(hint, getattr(arguments, name), name)]


@cache
def _timed_fields(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    """Returns the fields that can hold a date or time, with their types."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return tuple((name, hint) for name, hint in hints.items() if _holds_time(hint, frozenset()))


def _holds_time(hint: Any, passed: frozenset[Any]) -> bool:
    if _is_timed(hint):
        return True
    inner = [hint.__origin__] if typing.get_origin(hint) is Annotated else list(typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint not in passed:
        passed |= {hint}
        inner += typing.get_type_hints(hint, include_extras=True).values()
    return any(_holds_time(part, passed) for part in inner)


def _is_timed(hint: Any) -> bool:
    return metadata(hint).get(UNIT) in ("date", "time")


def _false_times(hint: Any, value: Any, path: str) -> Iterator[FalseTime]:
    if isinstance(value, str):
        if _is_timed(hint) and not is_time(value):
            yield FalseTime(path, value)
    elif isinstance(value, msgspec.Struct):
        for name, inner in _timed_fields(type(value)):
            yield from _false_times(inner, getattr(value, name), f"{path}.{name}")
    elif isinstance(value, Mapping):
        keys, values = _parts(hint, dict) or (Any, Any)
        for key, item in value.items():
            yield from _false_times(keys, key, path)
            yield from _false_times(values, item, f"{path}[{key}]")
    elif isinstance(value, list | tuple | set | frozenset):
        parts = _parts(hint, type(value))
        is_uniform = len(parts) != len(value) or Ellipsis in parts
        for number, item in enumerate(value):
            inner = parts[0 if is_uniform else number] if parts else Any
            yield from _false_times(inner, item, f"{path}[{number}]")


def _parts(hint: Any, kind: type) -> tuple[Any, ...]:
    """Returns the types inside of a container of a kind, which may be annotated or one of several alternatives."""
    for part in alternatives(hint):
        bare = part.__origin__ if typing.get_origin(part) is Annotated else part
        if bare is not part:
            if found := _parts(bare, kind):
                return found
        elif isinstance(origin := typing.get_origin(bare), type) and issubclass(kind, origin):
            return typing.get_args(bare)
    return ()
