"""The interface of a view: a named piece of JSON, a pure function of a store and a name.

A name is a path, `run/NAME/attempt/CHAIN/outline`; each part is percent-encoded as JavaScript's `encodeURIComponent`
does it, so that a recorded name cannot add a slash. Parts are untrusted: they are looked up in the store and never
joined to a path of the file system.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

Fields = Mapping[str, str]
Make = Callable[[Path, Fields], bytes | None]
Names = Callable[[Path, str], Iterable[str]]
_FIELD = re.compile(r"\{([a-z]+)(\+?)\}")
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class View(NamedTuple):
    """One kind of view."""

    pattern: str
    """`run/{run}/rows`; `{chains+}` matches several, joined by `+` (see `split_field`)."""
    make: Make
    """Returns the JSON from the store's folder and the name's decoded fields; None for an unknown view.

    Raises `UserError` or `StoreError` with a message for the reader.
    """
    names: Names
    """Yields the names in an export of a run, the most important first."""


def json_bytes(value: object) -> bytes:
    """Encodes a view's JSON. NaN and infinities become null, since JavaScript refuses them."""
    return _ENCODER.encode(value)


def encode_part(text: str) -> str:
    """Encodes a part of a name as JavaScript's `encodeURIComponent` does."""
    return quote(text, safe="!~*'()")


def view_name(*parts: str | Iterable[str]) -> str:
    """Joins plain parts to a view's name; a part of several texts is joined by `+`."""
    return "/".join(encode_part(part) if isinstance(part, str) else "+".join(map(encode_part, part)) for part in parts)


def run_view_name(kind: str) -> Names:
    """Returns a function that names a run's one view of a kind."""
    return lambda _, run: (view_name("run", run, kind),)


def split_field(field: str) -> tuple[str, ...]:
    """Splits a field whose pattern ends with `+`."""
    return tuple(unquote(part, errors="strict") for part in field.split("+"))


def match_name(view: View, name: str) -> dict[str, str] | None:
    """Returns the decoded fields of a name that matches this view, else None."""
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
