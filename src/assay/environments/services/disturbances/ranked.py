"""A ranker: which rows of a list come first is controlled, and nothing else."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from .interface import Answer, Call, Disturbance, DisturbanceOptions, Inner, leaves

_MOST_ROWS: Final = 400
"""Rows of a list that are ranked; later ones stay where they are."""


class _RankedOptions(DisturbanceOptions, frozen=True):
    match: Annotated[str, Meta(max_length=200)] = ""
    """Rows that hold this text come first, in upper or lower case; empty: rows that the reference plan does not use."""


class Ranked(Disturbance):
    """A ranker of lists: views with a `limit` show first the rows that it prefers. Every row is shown once.

    `rate` is the share of places, from the top of the whole list, that are filled with preferred rows while there are
    any. The wording of rows, and which rows there are, stay as they are, so that only composition and order of what
    is read first are varied. `state` counts the lists whose order was changed.
    """

    kind = "ranked"
    Options = _RankedOptions

    def prepare(self) -> None:
        self._used = {
            value for call in self.world.plan for value in call.arguments.values() if isinstance(value, str) and value
        }

    def call(self, call: Call, inner: Inner) -> Answer:
        answer = inner(call)
        action = self.world.composition.actions.get(call.name)
        if answer.code is not None or action is None or not action.reads_only or not self.options.rate:
            return answer
        properties = action.parameters["properties"]
        if "limit" not in properties:
            return answer
        shown = _read_rows(answer.text)
        given = call.arguments.get("offset")
        offset = max(given, 0) if isinstance(given, int) else 0
        rows = self._all_rows(call, _maximum(properties["limit"]), has_offset="offset" in properties)
        here = rows[offset : offset + len(shown or ())]
        if not here or shown is None or here != shown[: len(here)]:
            return answer  # no list, later rows, or what another disturbance has changed
        ranked = self._rank(call.name, rows)[offset : offset + len(here)] + shown[len(here) :]
        if ranked == shown:
            return answer
        self.state["ranked"] = self.state.get("ranked", 0) + 1
        return answer._replace(text=msgspec.json.encode(ranked).decode())

    def _all_rows(self, call: Call, most: int, *, has_offset: bool) -> list[Any]:
        """Returns the first rows of the whole list, read without a trace in the log."""
        rows: list[Any] = []
        while len(rows) < _MOST_ROWS:  # always up to the same row, whatever page is asked for
            wide = {**call.arguments, "limit": most} | ({"offset": len(rows)} if has_offset else {})
            text, code = self.world.peek_coded(call.name, wide)
            page = _read_rows(text) if code is None else None
            rows += page or []
            if not page or not has_offset or len(page) < most:
                break
        return rows[:_MOST_ROWS]

    def _rank(self, name: str, rows: list[Any]) -> list[Any]:
        preferred: list[Any] = []
        others: list[Any] = []
        for row in rows:
            (preferred if self._is_preferred(row) else others).append(row)
        first, second = iter(preferred), iter(others)
        found: list[Any] = []
        for place in range(len(rows)):
            is_slanted = self.draw_for(f"{name}/{place}").random() < self.options.rate
            one, other = (first, second) if is_slanted else (second, first)
            found.append(next(one, _NONE))
            if found[-1] is _NONE:
                found[-1] = next(other)
        return found

    def _is_preferred(self, row: Any) -> bool:
        if self.options.match:
            return self.options.match.lower() in msgspec.json.encode(row).decode().lower()
        return self._used.isdisjoint(value for _, value in leaves(row))

    def facts(self) -> dict[str, Any]:
        return {"ranked": self.state.get("ranked", 0)}


_NONE: Final = object()


def _maximum(schema: dict[str, Any]) -> int:
    """Returns the largest limit that a view takes."""
    found = [part["maximum"] for part in (schema, *schema.get("anyOf", ())) if "maximum" in part]
    return min(found, default=_MOST_ROWS)


def _read_rows(text: str) -> list[Any] | None:
    """Returns the rows of a result that is a list; None for any other."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, list) else None
