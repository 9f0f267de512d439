"""Functions beside an entry point: of its module or class, or of the package, that take the same arguments.

A wrong repair may answer as one of them does. Standard library alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from types import FunctionType, GeneratorType
from typing import Any

from package_functions import FunctionPath, static_member, unwrap  # type: ignore[import-not-found]
from value_shapes import TooLarge, fingerprint  # type: ignore[import-not-found]

MAKERS = ("__init__", "__new__", "__del__", "__init_subclass__", "__class_getitem__", "__set_name__")
"""Methods that Python calls by itself, with other arguments or for no answer."""
CO_VARARGS, CO_VARKEYWORDS = 0x04, 0x08


class ChangedArgument(Exception):
    """The function changed an argument in place, which is not taken from a worker."""


def find_siblings(entry: str, most: int) -> list[FunctionType]:
    """Returns the functions that may take an entry point's arguments, the most similar parameters first."""
    module, _, name = entry.partition(":")
    member = static_member(FunctionPath(module, name))
    function = unwrap(member)
    if not isinstance(function, FunctionType):
        return []
    parent, _, _ = name.rpartition(".")
    found: dict[Any, tuple[tuple[Any, ...], FunctionType]] = {}
    for distance, other_name, other in _members_near(module, parent, member):
        if other.__code__ is not function.__code__ and _may_take(other, function):
            shared = len({*_parameters(other)} & {*_parameters(function)})
            order = (distance, -shared, abs(len(_parameters(other)) - len(_parameters(function))), other_name)
            found.setdefault(other.__code__, (order, other))
    return [other for _, other in sorted(found.values(), key=lambda pair: pair[0])[:most]]


def answer_as(siblings: dict[str, list[FunctionType]], number: int, otherwise: Callable[[Any], Any], call: Any) -> Any:
    """Answers as the sibling of a number does, and as `otherwise` where the entry point has fewer siblings.

    Raises:
        ChangedArgument: The sibling changed an argument, and the reference changes none.
    """
    own = siblings.get(call.entry, ())
    if number >= len(own):
        return otherwise(call)
    values = [*call.args, *call.kwargs.values()]
    before = None if call.changes else _fingerprints(values)
    answer = own[number](*call.args, **call.kwargs)
    if not isinstance(answer, GeneratorType) and before is not None and before != _fingerprints(values):
        raise ChangedArgument
    return answer


def _fingerprints(values: list[Any]) -> list[str] | None:
    try:
        return [fingerprint(value) for value in values]
    except TooLarge:
        return None


def _members_near(module: str, parent: str, member: Any) -> Iterator[tuple[int, str, FunctionType]]:
    """Yields the functions of the same class, or of the module and then of the package; with their distance."""
    if parent:
        bound = _binding(member)
        for name, other in vars(static_member(FunctionPath(module, parent))).items():
            if name not in MAKERS and _binding(other) == bound:
                yield from _function(0, name, other)
        return
    for name, other in vars(importlib.import_module(module)).items():
        for one in _function(0, name, other):
            if one[2].__module__ == module:
                yield one
    function = unwrap(member)
    for name, other in vars(importlib.import_module(module.partition(".")[0])).items():
        for one in _function(1, name, other):
            if not name.startswith("_") and _parameters(one[2]) == _parameters(function):
                yield one


def _function(distance: int, name: str, member: Any) -> Iterator[tuple[int, str, FunctionType]]:
    try:
        function = unwrap(member)
    except ValueError:
        return
    if isinstance(function, FunctionType):
        yield distance, name, function


def _binding(member: Any) -> str:
    return type(member).__name__ if isinstance(member, (staticmethod, classmethod)) else "instance"


def _parameters(function: FunctionType) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _may_take(other: FunctionType, function: FunctionType) -> bool:
    """Returns True where some call of `function` is one that `other` takes."""
    least, most = _range_of(other)
    own_least, own_most = _range_of(function)
    code = other.__code__
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    required = {*named} - {*(other.__kwdefaults__ or ())}
    return least <= own_most and own_least <= most and required <= {*_parameters(function)}


def _range_of(function: FunctionType) -> tuple[int, float]:
    """Returns how many positional arguments a function needs and how many values it takes."""
    code = function.__code__
    most = code.co_argcount + code.co_kwonlyargcount
    is_open = code.co_flags & (CO_VARARGS | CO_VARKEYWORDS)
    return code.co_argcount - len(function.__defaults__ or ()), float("inf") if is_open else most
