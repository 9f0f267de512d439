"""The registry of primitives: a new one is one function with the decorator `primitive`.

A script of a family is composed of one primitive from each of the family's dimensions. The function's docstring says
what it does; its result is Python text (for `place`: shell text), built from the text that
it is handed. Those of the families `worker` and `edit` are not drawn: each is tried on every function of a package.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

__all__ = ["DIMENSIONS", "Dimension", "Family", "Primitive", "primitive", "primitives_of"]

Family = Literal["module", "values", "program", "worker", "edit"]
"""`module`: code that the tests import; `values`: what its functions return; `program`: what a test script starts;
`worker`: what answers for the package where tests are judged from outside; `edit`: what its other functions say."""
Dimension = Literal["place", "reach", "select", "rewrite", "trigger", "hide", "lie", "frame"]
DIMENSIONS: dict[Family, tuple[Dimension, ...]] = {
    "module": ("place", "reach", "select", "rewrite", "trigger", "hide"),
    "values": ("rewrite", "hide"),
    "program": ("place", "reach", "rewrite", "trigger", "hide"),
    "worker": ("lie", "frame"),
    "edit": ("lie",),
}
Render = Callable[[str], str]


class Primitive(NamedTuple):
    """One way to do one thing."""

    dimension: Dimension
    name: str
    variants: tuple[str, ...]
    """Where it can be tried; empty: wherever the family can."""
    render: Render


_TABLE: dict[Family, dict[Dimension, list[Primitive]]] = {
    family: {dimension: [] for dimension in dimensions} for family, dimensions in DIMENSIONS.items()
}


def primitive(dimension: Dimension, *families: Family, variants: tuple[str, ...] = ()) -> Callable[[Render], Render]:
    """Registers the decorated function under its own name for some families."""

    def register(render: Render) -> Render:
        for family in families:
            _TABLE[family][dimension].append(Primitive(dimension, render.__name__, variants, render))
        return render

    return register


def primitives_of(family: Family, dimension: Dimension) -> tuple[Primitive, ...]:
    """Returns the registered primitives of one dimension, in the order of their registration."""
    return tuple(_TABLE[family][dimension])
