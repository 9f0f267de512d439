"""Tables as text and as HTML, with hostile text escaped."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence


def plain(text: str) -> str:
    """Escapes control characters in hostile text."""
    return "".join(c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def table_lines(rows: Sequence[dict[str, str]]) -> Iterator[str]:
    """Yields aligned columns, one line per row, below a line of names; columns in order of first appearance."""
    lines = _lines(rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def text_table(rows: Sequence[dict[str, str]]) -> str:
    """Returns the lines of a table as one text."""
    return "\n".join(table_lines(rows))


def html_table(rows: Sequence[dict[str, str]], caption: str = "") -> str:
    """Returns an HTML table without script or style."""
    head, *body = [[html.escape(cell) for cell in line] for line in _lines(rows)]
    parts = ["<table>", f"<caption>{html.escape(plain(caption))}</caption>"] if caption else ["<table>"]
    parts.append("<thead><tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr></thead>")
    parts += ["<tbody>", *("<tr>" + "".join(f"<td>{cell}</td>" for cell in line) + "</tr>" for line in body)]
    return "".join([*parts, "</tbody></table>"])


def _lines(rows: Sequence[dict[str, str]]) -> list[list[str]]:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[plain(row.get(name, "-")).replace("\n", " ").replace("\t", " ") for name in columns] for row in rows]
    return [columns, *cells]
