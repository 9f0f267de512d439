"""Tables as Markdown, CSV and LaTeX, with hostile text escaped."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Annotated

import typer

from assay.errors import UserError

from .output import plain

FORMS = ("text", "markdown", "json", "csv", "latex")
_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _check_form(value: str) -> str:
    if value not in FORMS:
        raise UserError(f"unknown --format {value!r}: use one of {', '.join(FORMS)}")
    return value


FormOption = Annotated[
    str,
    typer.Option("--format", callback=_check_form, help="Table format: text, markdown, json, csv or latex."),
]


def format_rows(rows: Sequence[dict[str, str]], form: str) -> str:
    """Renders rows in a format; columns in order of first appearance. Raises `UserError` for an unknown format."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = ([plain(row.get(name, "-")).replace("\n", " ").replace("\t", " ") for name in columns] for row in rows)
    lines = [columns, *cells]
    if form == "markdown":
        return _markdown(lines)
    if form == "csv":
        return _csv(lines)
    if form == "latex":
        return _latex(lines)
    raise UserError(f"a table is written as markdown, csv or latex, not as {form!r}")


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *body = [[_MARKDOWN.sub(r"\\\1", cell) for cell in line] for line in lines]
    parts = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*parts, *("| " + " | ".join(line) + " |" for line in body)]) + "\n"


def _csv(lines: Sequence[Sequence[str]]) -> str:
    """Prefixes cells that look like formulas with an apostrophe; numbers stay numbers."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([[_inert(cell) for cell in line] for line in lines])
    return out.getvalue()


def _inert(cell: str) -> str:
    if not cell.startswith(_FORMULA) or cell == "-":
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _latex(lines: Sequence[Sequence[str]]) -> str:
    head, *body = [" & ".join("".join(_LATEX.get(c, c) for c in cell) for cell in line) + r" \\" for line in lines]
    columns = "l" * len(lines[0])
    parts = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}"]
    return "\n".join(parts) + "\n"
