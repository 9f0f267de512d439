"""Caches for what many rules ask of the same command or the same attempt in a row."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")
_SHORT = 16_384


def cached_by_command(compute: Callable[[str], T]) -> Callable[[str], T]:
    """Caches the results of a function of a command's text: of 2,048 texts of up to 16 KiB, and of 2 longer ones."""
    short, long = lru_cache(maxsize=2048)(compute), lru_cache(maxsize=2)(compute)

    @wraps(compute)
    def cached(command: str) -> T:
        return short(command) if len(command) <= _SHORT else long(command)

    return cached


class _Identity(Generic[K]):
    """A key that is equal for the same object alone, and keeps it alive while it is cached."""

    __slots__ = ("value",)

    def __init__(self, value: K) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value


def _remember_last(compute: Callable[[K], T]) -> Callable[[K], T]:
    last: tuple[Any, Any] = (object(), None)  # replaced as a whole: several threads may judge at once

    @wraps(compute)
    def cached(value: K) -> T:
        nonlocal last
        key, result = last
        if key is not value:
            result = compute(value)
            last = (value, result)
        known: T = result
        return known

    return cached


def cached_by_identity(size: int) -> Callable[[Callable[[K], T]], Callable[[K], T]]:
    """Caches the results of a function of one immutable object that cannot be hashed, for the last `size` objects.

    The result is shared: callers must not change it.
    """

    if size == 1:
        return _remember_last

    def decorate(compute: Callable[[K], T]) -> Callable[[K], T]:
        recall = lru_cache(maxsize=size)(lambda key: compute(key.value))

        @wraps(compute)
        def cached(value: K) -> T:
            return recall(_Identity(value))

        return cached

    return decorate
