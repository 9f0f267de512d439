"""Validates options of a function that is configured by name.

For functions with keyword-only options. Values from a recipe or a command line are checked against the annotations
before anything runs, so that a misspelt choice is an error instead of a silent default.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from assay.errors import UserError
from assay.validation_messages import describe_invalid


def convert_options(
    what: str, function: Callable[..., Any], options: Mapping[str, Any], *, handed: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Converts options to the types of the function's keyword-only parameters, without those in `handed`.

    `what` is the function's name in messages: `stage 'density'`.

    Raises:
        UserError: An option does not exist, or is of another type.
    """
    parameters = inspect.signature(function).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in handed]
    free = any(p.kind is p.VAR_KEYWORD for p in parameters)
    hints = _hints(function)
    found = {}
    for name, value in options.items():
        if name in handed or (name not in known and not free):
            raise UserError(f"{what} has no option {name!r}; it has {', '.join(known) or 'none'}")
        try:
            found[name] = msgspec.convert(value, hints[name]) if name in known and name in hints else value
        except msgspec.ValidationError as exc:
            problem = _choices(hints[name]) or describe_invalid(exc, hints[name], value, "option", name=name).message
            raise UserError(f"{what}: option {name!r} is {value!r}: {problem}") from exc
    return found


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Returns types by name; none if the annotations cannot be evaluated."""
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        return {}


def _choices(hint: Any) -> str:
    if typing.get_origin(hint) is not typing.Literal:
        return ""
    return f"expected {' or '.join(map(repr, typing.get_args(hint)))}"
