"""Typed agent options, validated when the agent is built, from a file or the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from assay.errors import OptionError, UserError
from assay.validation_messages import describe_invalid, example_of, get_type_info, nearest

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


def require_fitting_texts(shown: str, kind: type, given: Mapping[str, Any]) -> None:
    """Raises `UserError` for a text where the constructor of a user's class is annotated with flags, numbers, lists or
    tables alone: `no` would count as true, and broken JSON as a list of characters. Other annotations are the class's
    own affair."""
    try:
        hints = get_type_hints(kind.__init__)  # type: ignore[misc]
    except (NameError, TypeError, AttributeError, SyntaxError):
        return
    for name, value in given.items():
        expected = _plain_types(hints.get(name))
        if not isinstance(value, str) or not expected:
            continue
        if expected & {list, dict, tuple}:
            try:
                msgspec.json.decode(value)
            except (msgspec.DecodeError, RecursionError) as exc:
                raise UserError(f"agent {shown}: {name} is not JSON ({exc}): {value[:80]!r}") from exc
        wanted = " or ".join(sorted(_NOUNS[one] for one in expected))
        raise UserError(f"agent {shown}: {name}: expected {wanted}, got the text {value[:80]!r}")


_NOUNS = {bool: "true or false", int: "a number", float: "a number", list: "a list", tuple: "a list", dict: "a table"}


def _plain_types(hint: Any) -> set[type]:
    """Returns the flags, numbers, lists and tables that an annotation allows; empty if it allows anything else."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = {get_origin(one) or one for one in parts if one is not NoneType}
    return kinds if kinds and kinds <= _NOUNS.keys() else set()


def _table(agent: str, name: str, kind: Any, value: Any) -> Any:
    """Parses a table or list given as JSON text; returns other values unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError) as exc:
        example = f"{name}={example_of(get_type_info(kind), 'option')}"
        raise UserError(f"agent {agent!r}: {name} is not JSON ({exc}); write for example '{example}'") from exc
