"""Takes texts, paths and defaults of the command line as they are.

Typer converts every value by pydantic, also an option that was not given, and importing pydantic takes longer than most
commands: 0.1 s of CPU. Numbers, choices and everything else that can be invalid are still converted by Typer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

_PLAIN = (str, Path)


def take_plain_values(command: Any, function: Callable[..., Any] | None) -> None:
    """Spares the parameters of a command the conversion of values that it would not change.

    Args:
        command: The command that Typer made of `function`.
        function: Its signature has the types; None for a command group without options of its own.
    """
    types = {} if function is None else dict(inspect.signature(function, eval_str=True).parameters)
    for parameter in command.params:
        if parameter.name in types:
            parameter.process_value = _Values(parameter, types[parameter.name].annotation)
    make_help_option = command.get_help_option
    command.get_help_option = lambda context: take_plain_flag(make_help_option(context))


def take_plain_flag(option: Any) -> Any:
    """Spares a flag the conversion, and returns it; None stays None."""
    if option is not None and not isinstance(option.process_value, _Values):
        option.process_value = _Values(option, bool)
    return option


class _Values:
    """Stands in for the method `process_value` of one parameter."""

    def __init__(self, parameter: Any, annotation: Any) -> None:
        self._parameter = parameter
        self._convert: Callable[[Any, Any], Any] = parameter.process_value
        self._several: bool = parameter.multiple or parameter.nargs == -1
        self._plain = _plain_type(annotation, several=self._several)

    def __call__(self, context: Any, value: Any) -> Any:
        parameter = self._parameter
        if not self._is_plain(value) or (parameter.required and not value):
            return self._convert(context, value)
        if self._several:
            value = [*map(self._plain or str, value)] if value else ()
        elif self._plain is not None and isinstance(value, str):
            value = self._plain(value)
        return value if parameter.callback is None else parameter.callback(context, parameter, value)

    def _is_plain(self, value: Any) -> bool:
        """Returns whether a value is absent, of a plain type, or no text: the command line holds text alone, so
        anything else is a default or a flag."""
        if self._several:
            return not value or (self._plain is not None and isinstance(value, list | tuple))
        return not isinstance(value, str) or self._plain is not None


def _plain_type(annotation: Any, *, several: bool) -> type[str] | type[Path] | None:
    """Returns `str` or `Path` if that is the type of a parameter, or of each value of it; None for any other."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    found = [each for each in get_args(annotation) if each is not type(None)]
    if type(None) in get_args(annotation) and len(found) == 1:
        annotation = found[0]
    if several:
        annotation = get_args(annotation)[0] if get_origin(annotation) is list else None
    return next((plain for plain in _PLAIN if annotation is plain), None)
