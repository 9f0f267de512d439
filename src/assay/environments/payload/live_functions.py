"""Functions in memory whose code is exchanged for that of another text of their file. Standard library alone.

A function's code object is exchanged, not the function: decorators, registries and other modules that already hold the
function run the new code too. A text that differs in anything but the bodies of functions is refused.
"""

from __future__ import annotations

import contextlib
import gc
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

FROZEN: dict[str, list[FunctionType]] = {}
"""Functions by file that were hidden from the garbage collector (`gc.freeze`), which finds all others."""


class LiveFunctions:
    """Functions defined in some files, whose code can be replaced by that of another text."""

    def __init__(self, paths: set[str]) -> None:
        self._functions: dict[tuple[str, str, int], list[Any]] = {}
        self._original: dict[str, CodeType] = {}
        for path in paths:
            with contextlib.suppress(OSError, SyntaxError, ValueError):
                self._original[path] = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
        for thing in functions_in_memory(paths):
            self._functions.setdefault(code_key(thing.__code__), []).append(thing)

    def replace(self, path: str, text: str) -> bool:
        """Returns True if every differing function now runs the new code; False may leave some unchanged."""
        try:
            new = compile(text.encode(), path, "exec", dont_inherit=True)
            for old, code in list(find_differences(self._original[path], new)):
                known = self._functions.get(code_key(old), [])
                # A function inside another one need not be in memory yet; two on one line may have one name.
                if any(function.__code__ != old for function in known) or not (known or "<locals>" in old.co_qualname):
                    return False
                for function in known:
                    function.__code__ = code
        except (KeyError, SyntaxError, ValueError, RecursionError, MemoryError):
            return False
        return True


def functions_in_memory(paths: set[str]) -> Iterator[FunctionType]:
    """Yields the functions of some files: a look at any other would copy its page in a fork."""
    for path in paths:
        yield from FROZEN.get(path, ())
    yield from (f for f in gc.get_objects() if type(f) is FunctionType and f.__code__.co_filename in paths)


def code_key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def find_differences(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yields the functions whose code differs. Raises `ValueError` if anything else differs."""
    if old == new:
        return
    if code_key(old) != code_key(new):
        raise ValueError("functions were moved")
    if old.co_flags & inspect.CO_NEWLOCALS and old.co_flags & inspect.CO_OPTIMIZED:
        if not old.co_name.startswith("<") or old.co_name == "<lambda>":
            yield old, new
        elif "<locals>" not in old.co_qualname:
            raise ValueError("code outside functions differs")
    elif (old.co_code, old.co_names, _constant_values(old)) != (new.co_code, new.co_names, _constant_values(new)):
        raise ValueError("code outside functions differs")
    inner = [c for c in old.co_consts if isinstance(c, CodeType)], [c for c in new.co_consts if isinstance(c, CodeType)]
    for one, two in zip(*inner, strict=False):
        if not (old.co_flags & inspect.CO_OPTIMIZED) or code_key(one) == code_key(two):
            yield from find_differences(one, two)


def _constant_values(code: CodeType) -> list[tuple[str, str]]:
    return [(type(c).__name__, repr(c)) for c in code.co_consts if not isinstance(c, CodeType)]
