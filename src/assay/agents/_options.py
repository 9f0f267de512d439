"""Typed agent options, validated when the agent is built, from a file or the command line."""

from __future__ import annotations

from typing import Any, TypeVar, get_origin

import msgspec

from assay.errors import UserError

T = TypeVar("T", bound=msgspec.Struct)


def read_options(kind: type[T], given: dict[str, Any], agent: str) -> T:
    """Parses `--agent-option key=value` pairs; a value may be typed or text. Tables and lists are JSON.

    Raises `TypeError` for an unknown option and `UserError` for a wrong value; the message names the option.
    """
    fields = msgspec.structs.fields(kind)
    known = [field.name for field in fields]
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise TypeError(f"agent {agent!r} has no option {', '.join(unknown)}; known: {', '.join(known) or 'none'}")
    try:
        tables = {field.name for field in fields if get_origin(field.type) in {dict, list, tuple}}
        plain = {name: _table(value) if name in tables else value for name, value in given.items()}
        return msgspec.convert(plain, kind, strict=False)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise UserError(f"agent {agent!r}: {exc}; correct the option") from exc


def _table(value: Any) -> Any:
    """Parses a table or list given as JSON text; returns other values unchanged."""
    return msgspec.json.decode(value) if isinstance(value, str) else value
