"""Typed agent options, validated when the agent is built, from a file or the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar, get_origin

import msgspec

from assay.errors import OptionError, UserError
from assay.misfits import describe_invalid, example_of, get_type_info, nearest

T = TypeVar("T", bound=msgspec.Struct)


def read_options(kind: type[T], given: dict[str, Any], agent: str) -> T:
    """Parses `--agent-option key=value` pairs; a value may be typed or text. Tables and lists are JSON.

    Raises `OptionError` for an unknown option and `UserError` for a wrong value; the message names the option.
    """
    require_known_options(kind, given, agent)
    tables = {f.name: f.type for f in msgspec.structs.fields(kind) if get_origin(f.type) in {dict, list, tuple}}
    plain = {
        name: _table(agent, name, tables[name], value) if name in tables else value for name, value in given.items()
    }
    try:
        return msgspec.convert(plain, kind, strict=False)
    except msgspec.ValidationError as exc:
        invalid = describe_invalid(exc, kind, plain, "option")
        raise UserError(f"agent {agent!r}: {invalid.field or 'an option'}: {invalid.message}") from exc


def require_known_options(kind: type[msgspec.Struct], given: Iterable[str], agent: str) -> None:
    """Raises `OptionError` for an option that is not a field of `kind`."""
    known = kind.__struct_fields__
    unknown = sorted(set(given) - set(known))
    if unknown:
        near = nearest(unknown[0], known)
        hint = f"did you mean {near}? " if near else ""
        raise OptionError(f"agent {agent!r} has no option {', '.join(unknown)}; {hint}known: {', '.join(known)}")


def _table(agent: str, name: str, kind: Any, value: Any) -> Any:
    """Parses a table or list given as JSON text; returns other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError) as exc:
        example = f"{name}={example_of(get_type_info(kind), 'option')}"
        raise UserError(f"agent {agent!r}: {name} is not JSON ({exc}); write for example '{example}'") from exc
