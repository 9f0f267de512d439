"""What a view is: a named piece of JSON, a pure function of a store and a name.

A name is a path, `run/NAME/attempt/CHAIN/outline`; each part is percent-encoded as JavaScript's `encodeURIComponent`
does it, so that what stands in a record cannot add a slash. Parts come from strangers: they are looked up in the store
and never joined to a path of the file system.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

__all__ = ["Fields", "Make", "Names", "View", "encode_part", "json_bytes", "match_name", "split_field", "view_name"]

Fields = Mapping[str, str]
Make = Callable[[Path, Fields], bytes | None]
Names = Callable[[Path, str], Iterable[str]]
_FIELD = re.compile(r"\{([a-z]+)(\+?)\}")
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class View(NamedTuple):
    """One kind of view."""

    pattern: str
    """`run/{run}/rows`; `{chains+}` stands for several, joined by `+` (see `split_field`)."""
    make: Make
    """Given the store's folder and the decoded fields of the name, the JSON; None where there is no such thing.

    Raises `UserError` or `StoreError` with words for the reader.
    """
    names: Names
    """Given the store's folder and a run, the names that an export of that run holds, most wanted first."""


def json_bytes(value: object) -> bytes:
    """A view's JSON. NaN and infinities become null: JavaScript would refuse them."""
    return _ENCODER.encode(value)


def encode_part(text: str) -> str:
    """A part of a name, as JavaScript's `encodeURIComponent` writes it."""
    return quote(text, safe="!~*'()")


def view_name(*parts: str | Iterable[str]) -> str:
    """The name of a view from its plain parts; a part of several texts is joined by `+`."""
    return "/".join(encode_part(part) if isinstance(part, str) else "+".join(map(encode_part, part)) for part in parts)


def split_field(field: str) -> tuple[str, ...]:
    """The texts of a field whose pattern ends with `+`."""
    return tuple(unquote(part, errors="strict") for part in field.split("+"))


def match_name(view: View, name: str) -> dict[str, str] | None:
    """The decoded fields of a name that is one of this view; None where it is not."""
    expression, many = _expression(view.pattern)
    found = expression.fullmatch(name)
    if found is None:
        return None
    raw = found.groupdict()
    try:
        plain = {key: unquote(text, errors="strict") for key, text in raw.items()}
    except UnicodeDecodeError:
        return None
    return plain | {key: raw[key] for key in many}


@cache
def _expression(pattern: str) -> tuple[re.Pattern[str], frozenset[str]]:
    many = frozenset(name for name, plus in _FIELD.findall(pattern) if plus)
    parts, at = [], 0
    for found in _FIELD.finditer(pattern):
        parts += [re.escape(pattern[at : found.start()]), f"(?P<{found[1]}>[^/]+)"]
        at = found.end()
    return re.compile("".join(parts) + re.escape(pattern[at:])), many
