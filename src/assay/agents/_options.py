"""Options of agents: typed, checked when the agent is built, the same from a file and from the command line."""

from __future__ import annotations

from typing import Any, TypeVar, get_origin

import msgspec

from assay.errors import UserError

__all__ = ["read_options"]

T = TypeVar("T", bound=msgspec.Struct)


def read_options(kind: type[T], given: dict[str, Any], agent: str) -> T:
    """Reads `--agent-option key=value` pairs; a value may be of the right type or the text of one.

    Tables and lists are given as JSON.

    Raises:
        TypeError: An option that the agent does not have; the message lists those that it has.
        UserError: A value of the wrong type or out of bounds; the message names it.
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
    """A table or list given as JSON text, as on a command line; anything else as it is."""
    return msgspec.json.decode(value) if isinstance(value, str) else value
