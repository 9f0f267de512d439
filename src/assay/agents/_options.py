"""Options of agents: typed, checked when the agent is built, the same from a file and from the command line."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from assay.errors import UserError

__all__ = ["read_options"]

T = TypeVar("T", bound=msgspec.Struct)


def read_options(kind: type[T], given: dict[str, Any], agent: str) -> T:
    """Reads `--agent-option key=value` pairs; a value may be of the right type or the text of one.

    Raises:
        TypeError: An option that the agent does not have; the message lists those that it has.
        UserError: A value of the wrong type or out of bounds; the message names it.
    """
    known = [field.name for field in msgspec.structs.fields(kind)]
    unknown = sorted(set(given) - set(known))
    if unknown:
        message = f"agent {agent!r} has no option {', '.join(unknown)}; known: {', '.join(known) or 'none'}"
        raise TypeError(message)
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as exc:
        message = f"agent {agent!r}: {exc}; correct the option"
        raise UserError(message) from exc
