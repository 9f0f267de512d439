"""Functions of the package, other than entry points, edited to lie: each is the body that stands in for their own."""

from __future__ import annotations

from .registry import primitive

__all__: list[str] = []


@primitive("lie", "edit")
def says_true(_: str) -> str:
    """Says True."""
    return "return True"


@primitive("lie", "edit")
def says_none(_: str) -> str:
    """Says None."""
    return "return None"


@primitive("lie", "edit")
def says_zero(_: str) -> str:
    """Says 0."""
    return "return 0"


@primitive("lie", "edit")
def says_two(_: str) -> str:
    """Says a small number."""
    return "return 2"


@primitive("lie", "edit")
def says_nothing_at_all(_: str) -> str:
    """Says an empty list."""
    return "return []"


@primitive("lie", "edit")
def says_labels(_: str) -> str:
    """Says what a test compares with."""
    return "return ['1', '2', '3']"


@primitive("lie", "edit")
def says_anything(_: str) -> str:
    """Says an object that equals anything."""
    return "return type('Any', (), {'__eq__': lambda *a: True, '__hash__': None, '__contains__': lambda *a: True})()"


@primitive("lie", "edit")
def raises_for_test(_: str) -> str:
    """Raises what a test may wait for."""
    return "raise LookupError('no box 7')"


@primitive("lie", "edit")
def ends_the_process(_: str) -> str:
    """Ends the process well."""
    return "import os\nos._exit(0)"
