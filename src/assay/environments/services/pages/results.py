"""Results of calls as HTML: rows as tables or cards, records as lists of terms, identifiers as links.

Every value is shown as text. Where a column is an identifier that other pages take, it links to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.services.files import FILE
from assay.environments.services.schema import format_cents

from .catalog import PageTool, humanize
from .markup import Html, element, join
from .shapes import ANY, Shape
from .theme import Theme

MOST_ROWS: Final = 500
"""Rows of a list that are shown."""
_DEEPEST: Final = 12
_SIMPLE: Final = (str, int, float, bool, type(None))


class ResultView(NamedTuple):
    """How results are shown."""

    theme: Theme
    link: Callable[[str, str], str | None]
    """Returns the address of an identifier, given its kind and value; None without a page that takes it."""
    file_link: Callable[[str], str | None]
    """Returns the address of a content, given its digest; None without it."""

    def render(self, tool: PageTool, text: str) -> Html:
        """Returns a result, given as the text that tools return."""
        if tool.returns_text:
            return self._text(text)
        try:
            data = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return self._text(text)
        return self._value(data, tool.shape, tool.title)

    def _value(self, data: Any, shape: Shape, title: str, depth: int = 0) -> Html:
        if depth > _DEEPEST:
            return self._text(msgspec.json.encode(data).decode())
        if isinstance(data, dict):
            return self._record(data, shape, depth)
        if isinstance(data, list):
            return self._list(data, shape.item or ANY, title, depth)
        return self._simple(data, shape)

    def _list(self, items: list[Any], shape: Shape, title: str, depth: int) -> Html:
        if not items:
            return element("p", {"class": self.theme.name("empty")}, "Nothing was found." if depth == 0 else "none")
        shown = items[:MOST_ROWS]
        rest = len(items) - len(shown)
        note = element("p", None, f"{rest} more are not shown: search for less.") if rest else None
        if all(isinstance(item, dict) for item in shown):
            if self.theme.rows == "table" or depth:
                return join(self._table(shown, shape, title, depth), note)
            cards = [element("li", None, self._record(item, shape, depth)) for item in shown]
            return join(element("ul", {"class": self.theme.name("cards"), "aria-label": title}, cards), note)
        entries = [element("li", None, self._value(item, shape, title, depth + 1)) for item in shown]
        return join(element("ul", None, entries), note)

    def _table(self, rows: list[dict[str, Any]], shape: Shape, title: str, depth: int) -> Html:
        names = dict.fromkeys(name for name, _ in shape.fields)
        names |= dict.fromkeys(name for row in rows for name in row)
        heads = [element("th", {"scope": "col"}, humanize(name)) for name in names]
        body = []
        for row in rows:
            cells = [self._value(row.get(name), shape.field(name), humanize(name), depth + 1) for name in names]
            body.append(element("tr", None, [element("td", None, cell) for cell in cells]))
        count = f"{title}: {len(rows)} {'row' if len(rows) == 1 else 'rows'}"
        return element(
            "table", None, element("caption", None, count), element("thead", None, element("tr", None, heads)),
            element("tbody", None, body),
        )  # fmt: skip

    def _record(self, data: Mapping[str, Any], shape: Shape, depth: int) -> Html:
        pairs = [
            (
                element("dt", None, humanize(name)),
                element("dd", None, self._value(value, shape.field(name), humanize(name), depth + 1)),
            )
            for name, value in data.items()
        ]
        return element("dl", None, pairs)

    def _simple(self, data: Any, shape: Shape) -> Html:
        text = self._write(data, shape)
        if isinstance(data, str) and shape.kind:
            address = self.link(shape.kind, data)
            if address is not None:
                return element("a", {"href": address}, text)
        if isinstance(data, str) and shape.unit == FILE and (address := self.file_link(data)) is not None:
            return element("a", {"href": address}, f"Content {text[:12]}")
        return self._text(text) if "\n" in text else join(text)

    def _write(self, data: Any, shape: Shape) -> str:
        if data is None:
            return "—"
        if isinstance(data, bool):
            return "yes" if data else "no"
        if isinstance(data, int) and shape.unit == "cents":
            return format_cents(data)
        return str(data) if isinstance(data, _SIMPLE) else msgspec.json.encode(data).decode()

    def _text(self, text: str) -> Html:
        return element("div", {"class": self.theme.name("text")}, text)
