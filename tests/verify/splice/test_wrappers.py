"""Which wrappers of an entry point the worker skips: those that the original has, the outermost first, no others."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.quick


def plain(value: int = 0) -> int:
    return value


def wrapped(function: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> int:
        return function(*args) + 1

    return wrapper


def test_wrappers_of_the_original_are_skipped(programs: Any) -> None:
    codec = programs.splice_codec
    both = functools.lru_cache(wrapped(plain))
    layers = codec.wrapper_layers(both)
    assert len(layers) == 2
    assert codec.unwrap(both, layers) is plain


def test_a_wrapper_that_the_original_has_not_is_kept(programs: Any) -> None:
    codec = programs.splice_codec
    inner, outer = functools.lru_cache(wrapped(plain)), wrapped(functools.lru_cache(plain))
    layers = codec.wrapper_layers(functools.lru_cache(plain))
    assert codec.unwrap(inner, layers)(1) == 2
    assert codec.unwrap(outer, layers) is outer
    assert codec.unwrap(wrapped(plain), [])(1) == 2


def doubling(function: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(function)
    def wrapper(value: int) -> int:
        return function(2 * value)

    return wrapper


doubling_there = types.FunctionType(doubling.__code__, {**globals(), "__name__": "package.decorators"})
"""The same of another module: wrappers are told apart by their modules."""


class Dispatcher:
    """As networkx's: a decorator outside of it copies its dictionary."""

    def __init__(self, function: Callable[..., int]) -> None:
        self.orig_func = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> int:
        return self.orig_func(*args)


@pytest.mark.parametrize("inside", [doubling_there, lambda f: Dispatcher(doubling_there(f)), functools.lru_cache])
def test_wrappers_of_the_agent_stay_outside_of_those_that_are_skipped(programs: Any, inside: Any) -> None:
    layers = programs.splice_codec.wrapper_layers(inside(plain))
    assert layers
    whole = wrapped(wrapped(inside(plain)))
    assert whole(3) == (5 if inside is functools.lru_cache else 8)
    assert programs.splice_worker._without_wrappers(whole, layers)(3) == 5
    assert programs.splice_worker._without_wrappers(inside(plain), layers) is plain
    assert whole(3) == (5 if inside is functools.lru_cache else 8), "the agent's own function is as it was"


def test_a_wrapper_that_holds_its_function_elsewhere_runs_whole(programs: Any) -> None:
    held = [doubling(plain)]

    @functools.wraps(held[0])
    def outer(value: int) -> int:
        return held[0](value) + 1

    layers = programs.splice_codec.wrapper_layers(doubling(plain))
    assert programs.splice_worker._without_wrappers(outer, [["__wrapped__", "other", ""]])(3) == 7
    assert programs.splice_worker._without_wrappers(staticmethod(doubling(plain)), layers) is plain


def test_methods_and_properties_are_reached(programs: Any) -> None:
    codec = programs.splice_codec
    assert codec.unwrap(property(plain), []) is plain
    assert codec.unwrap(staticmethod(wrapped(plain)), codec.wrapper_layers(wrapped(plain))) is plain


def test_wrappers_without_end_are_bounded(programs: Any) -> None:
    def endless() -> None: ...

    endless.__wrapped__ = endless  # type: ignore[attr-defined]
    assert len(programs.splice_codec.wrapper_layers(endless)) == programs.splice_codec.MAX_LAYERS


def example(a: int, b: int = 1, c: int = 2, *rest: int, d: int = 3, **more: int) -> None: ...


@pytest.mark.parametrize(
    ("values", "keywords", "sent"),
    [
        ([7, 1, 2], {"d": 3}, ([7], {})),
        ([7, 1, 8], {"d": 9}, ([7], {"c": 8, "d": 9})),
        ([7, 8, 2], {"d": 3, "x": 3}, ([7, 8], {"x": 3})),
        ([7, 1, 2, 5], {"d": 3}, ([7, 1, 2, 5], {})),
    ],
)
def test_defaults_of_the_original_are_not_sent(programs: Any, values: Any, keywords: Any, sent: Any) -> None:
    assert programs.splice_client._omit_defaults(example, ["a", "b", "c"], values, keywords) == sent


def test_a_wrapper_that_compiles_itself_is_the_same_before_and_after(programs: Any) -> None:
    codec = programs.splice_codec
    fresh, called = wrapped(plain), wrapped(plain)
    called.__code__ = called.__code__.replace(co_name="compiled_7", co_filename="<compiled>")
    assert codec.unwrap(fresh, codec.wrapper_layers(called)) is plain
