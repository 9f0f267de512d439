"""Shapes of results: which parts of what a call returns are identifiers, amounts, times, rows and lists.

A shape is read from the annotation of the function that returns it. It decides how a result is shown and never which
values are: data that does not fit its shape is shown as plain data.
"""

from __future__ import annotations

import typing
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from assay.environments.services.schema import IDENTIFIER, UNIT, alternatives, metadata

_DEEPEST: Final = 6


class Shape(NamedTuple):
    """Shape of a value."""

    form: Literal["value", "list", "row", "any"] = "any"
    kind: str = ""
    """Kind of identifier; empty for other values."""
    unit: str = ""
    """`cents`, `time`, `date` or `text`; empty for other values."""
    fields: tuple[tuple[str, Shape], ...] = ()
    """Of a row: its columns, in order."""
    item: Shape | None = None
    """Of a list."""

    def field(self, name: str) -> Shape:
        """Returns the shape of a column; of an unknown one, that of any data."""
        return next((shape for known, shape in self.fields if known == name), ANY)


ANY: Final = Shape()


def shape_of(annotation: Any, depth: int = 0) -> Shape:
    """Returns the shape of values of a type."""
    parts = alternatives(annotation)
    if len(parts) != 1 or depth > _DEEPEST:
        return ANY
    facts = metadata(annotation)
    bare = parts[0]
    while typing.get_origin(bare) is Annotated:
        bare = bare.__origin__
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        hints = typing.get_type_hints(bare, include_extras=True)
        names = [(field.encode_name, hints[field.name]) for field in msgspec.structs.fields(bare)]
        return Shape("row", fields=tuple((name, shape_of(hint, depth + 1)) for name, hint in names))
    if typing.get_origin(bare) in (list, tuple):
        item = (*typing.get_args(bare), Any)[0]
        return Shape("list", item=shape_of(item, depth + 1))
    if bare in (str, int, bool, float) or typing.get_origin(bare) is Literal:
        return Shape("value", str(facts.get(IDENTIFIER) or ""), str(facts.get(UNIT) or ""))
    return ANY
