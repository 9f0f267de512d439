"""Takes texts, paths, numbers and defaults of the command line as they are.

Typer converts every value by pydantic, also an option that was not given, and importing pydantic takes longer than most
commands: 0.1 s of CPU. Choices and everything else that can be invalid are still converted by Typer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from assay.errors import UserError

_Plain = type[str] | type[Path] | type[int] | type[float]
_PLAIN: tuple[_Plain, ...] = (str, Path, int, float)
_NUMBERS = {int: ("a whole number", "1"), float: ("a number", "0.5")}


def take_plain_values(command: Any, function: Callable[..., Any] | None) -> None:
    """Spares the parameters of a command the conversion of values that it would not change, and refuses an option that
    is given twice and takes one value, of which the parser would take the last.

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
    parse = command.parse_args

    def parse_args(context: Any, arguments: list[str]) -> list[str]:
        _refuse_repeats(command.make_parser(context).parse_args(list(arguments))[2])
        rest: list[str] = parse(context, arguments)
        return rest

    command.parse_args = parse_args


def _refuse_repeats(given: Sequence[Any]) -> None:
    """Raises `UserError` if a parameter of one value is among those given more than once."""
    seen = set[int]()
    for parameter in given:
        takes_one = parameter.param_type_name == "option" and not parameter.multiple and not parameter.is_flag
        if takes_one and id(parameter) in seen:
            name = max(parameter.opts, key=len)
            raise UserError(f"{name} is given more than once, and takes one value: keep one of them")
        seen.add(id(parameter))


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
        self._name = max(parameter.opts, key=len) if parameter.opts else str(parameter.name)

    def __call__(self, context: Any, value: Any) -> Any:
        parameter = self._parameter
        if not self._is_plain(value) or (parameter.required and not value):
            return self._convert(context, value)
        if self._several:
            value = [*map(self._read, value)] if value else ()
        elif self._plain is not None and isinstance(value, str):
            value = self._read(value)
        return value if parameter.callback is None else parameter.callback(context, parameter, value)

    def _read(self, text: str) -> Any:
        """Converts a text. Raises `UserError` where the text is not the expected number, or out of bounds."""
        parameter, plain = self._parameter, self._plain or str
        try:
            value = plain(text)
        except ValueError:
            kind, example = _NUMBERS[plain]
            given = "is followed by the option" if text.startswith("--") else "is given"
            shown = f"{self._name} takes {kind}, as in `{self._name} {example}`; it {given} {text[:100]!r}"
            raise UserError(shown) from None
        if isinstance(value, int | float):
            least = -inf if parameter.min is None else parameter.min
            most = inf if parameter.max is None else parameter.max
            if not least <= value <= most:
                bounds = f"of at least {least:g}" if most == inf else f"from {least:g} to {most:g}"
                raise UserError(f"{self._name} takes a number {bounds}, and is given {text[:100]}")
        return value

    def _is_plain(self, value: Any) -> bool:
        """Returns whether a value is absent, of a plain type, or no text: the command line holds text alone, so
        anything else is a default or a flag."""
        if self._several:
            return not value or (self._plain is not None and isinstance(value, list | tuple))
        return not isinstance(value, str) or self._plain is not None


def _plain_type(annotation: Any, *, several: bool) -> _Plain | None:
    """Returns the plain type of a parameter, or of each value of it; None for any other."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    found = [each for each in get_args(annotation) if each is not type(None)]
    if type(None) in get_args(annotation) and len(found) == 1:
        annotation = found[0]
    if several:
        annotation = get_args(annotation)[0] if get_origin(annotation) is list else None
    return next((plain for plain in _PLAIN if annotation is plain), None)
