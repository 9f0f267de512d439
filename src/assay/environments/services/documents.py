"""Tables of documents: records with nested parts and amounts that are not whole, as other people's databases have them.

A document is a Struct. Each of its fields is a column: one of a type that a column can have as it is, any other (a
list, a table, a float) as canonical JSON text. Equal values have equal texts, so that states are compared column by
column, and a difference names the field that changed.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta

from assay.records import canonical_bytes

from .declaration import Service
from .schema import UNIT, can_be_column
from .transaction import Generator, Transaction

D = TypeVar("D", bound=msgspec.Struct)

JsonText = Annotated[str, Meta(extra={UNIT: "json"})]
"""A value as canonical JSON."""
POSITION: Final = "position"
_MOST_TEXTS: Final = 16_384
"""Texts of documents that are held."""


class Documents(Generic[D]):
    """A table of documents.

    Args:
        service: The service that has the table.
        document: Struct of a document; its first field is the key.
        name: Plural noun.
        indexes: Sets of fields that are searched often.
        ordered: Whether documents have an order beside that of their keys, in which they were added.
        judged: Whether changes of the documents are part of the outcome.
        also: Other services that have the same table of their own; no world has two of them.
    """

    def __init__(
        self,
        service: Service,
        document: type[D],
        name: str,
        *,
        indexes: Sequence[Sequence[str]] = (),
        ordered: bool = False,
        judged: bool = True,
        also: Sequence[Service] = (),
    ) -> None:
        self.document = document
        self._ordered = ordered
        self._decoders: dict[str, Callable[[str], Any]] = {}
        fields: list[Any] = []
        for field, hint in typing.get_type_hints(document, include_extras=True).items():
            if can_be_column(hint):
                fields.append((field, hint))
            else:
                self._decoders[field] = msgspec.json.Decoder(hint).decode
                fields.append((field, JsonText))
        if ordered:
            fields.append((POSITION, int))
        row = msgspec.defstruct(document.__name__, fields, frozen=True, module=document.__module__)
        for one in (service, *also):
            one.table(name, indexes=indexes, judged=judged)(row)
        self._row: type[msgspec.Struct] = row
        self._fields = document.__struct_fields__
        self._order = POSITION if ordered else self._fields[0]
        self._rendered: dict[Callable[[D], str], Callable[[msgspec.Struct], str]] = {}

    def get(self, tx: Transaction, key: str) -> D | None:
        """Returns the document with a key, or None. What is changed in it is stored by `save`."""
        found = tx.get_or_none(self._row, key)
        return None if found is None else self._read(found)

    def find(self, tx: Transaction, **equal: Any) -> list[D]:
        """Returns the documents whose fields have these values, in their order; only fields that are not JSON."""
        rows = tx.find(self._row, order_by=self._order, **equal)
        return [self._read(row) for row in rows]

    def insert(self, tx: Transaction, document: D) -> None:
        """Adds a document behind all others."""
        tx.insert(self._row_of(document, tx.count(self._row)))

    def save(self, tx: Transaction, document: D) -> None:
        """Stores what has changed in a document."""
        key = getattr(document, self._fields[0])
        before = tx.get(self._row, key)
        after = self._row_of(document, getattr(before, POSITION, 0))
        changes = {
            name: getattr(after, name)
            for name in after.__struct_fields__
            if getattr(after, name) != getattr(before, name)
        }
        if changes:
            tx.update(before, **changes)

    def fill(self, make: Generator, documents: Iterable[D]) -> None:
        """Adds the documents of an initial state."""
        make.insert_all([self._row_of(document, number) for number, document in enumerate(documents)])

    def render(self, tx: Transaction, render: Callable[[D], str]) -> dict[str, str]:
        """Returns a text of each document by its key, in their order; texts of equal documents are made once.

        Args:
            tx: The state.
            render: Function of the document alone, the same one in each call.
        """
        cached = self._rendered.get(render)
        if cached is None:
            cached = self._rendered[render] = lru_cache(_MOST_TEXTS)(lambda row: render(self._read(row)))
        rows = tx.find(self._row, order_by=self._order)
        return {getattr(row, self._fields[0]): cached(row) for row in rows}

    def _row_of(self, document: D, position: int) -> msgspec.Struct:
        values = [
            canonical_bytes(getattr(document, name)).decode() if name in self._decoders else getattr(document, name)
            for name in self._fields
        ]
        return self._row(*values, position) if self._ordered else self._row(*values)

    def _read(self, row: msgspec.Struct) -> D:
        values = {}
        for name in self._fields:
            value = getattr(row, name)
            decode = self._decoders.get(name)
            values[name] = value if decode is None else decode(value)
        return self.document(**values)
