"""Generates every mutant of a reference solution; `sensitivity` samples them.

A mutant changes one file. Nothing is offered that compiles to the same code as the solution, or has the same bytes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from assay.code.operators import OPERATORS, WIDER, Site, apply, find_sites
from assay.code.source import SourceError, parse
from assay.code.textual import language_of, textual_sites

from ._changes import ChangedFile, changed_lines, hunks_of, lines_of

STRUCTURAL = ("hunk-dropped", "block-dropped", "file-reverted")
"""Operators that remove whole pieces of the solution; sampled first."""
MOST_NUMBERS = 40
"""Limit of mutated numbers in one data file; spread over the file."""
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,15}(\.\d+)?(?![\w.]*\w)")


class Mutation(NamedTuple):
    """New content of one file; None restores the pristine state."""

    path: str
    operator: str
    content: bytes | None
    literal: str = ""
    """Number, text, shell command or option that is changed; else empty."""


def generate_mutations(file: ChangedFile) -> Iterator[Mutation]:
    """Yields all mutants of one file, in a stable order."""
    yield Mutation(file.path, "file-reverted", None)
    if file.after is None:
        yield from _mutate_binary(file)
        return
    yield from _drop_lines(file)
    if file.role == "python":
        yield from _mutate_python(file, file.after)
    elif file.role == "program":
        yield from _mutate_text(file, file.after)
    else:
        yield from _mutate_outputs(file, file.after)


def _drop_lines(file: ChangedFile) -> Iterator[Mutation]:
    assert file.after is not None
    lines = lines_of(file.after)
    if file.before is not None:
        for hunk in hunks_of(file.before, file.after):
            yield _mutation(file, "hunk-dropped", [*lines[: hunk.first], *hunk.before, *lines[hunk.last :]])
    elif file.role != "data":
        for first, last in _blocks(file):
            yield _mutation(file, "block-dropped", [*lines[:first], *lines[last:]])


def _mutation(file: ChangedFile, operator: str, lines: list[str]) -> Mutation:
    return Mutation(file.path, operator, "".join(lines).encode())


def _blocks(file: ChangedFile) -> Iterator[tuple[int, int]]:
    """Yields the line ranges of an added program's top-level statements without imports, else of its paragraphs."""
    assert file.after is not None
    if file.role == "python":
        try:
            body = parse(file.after).tree.body
        except SourceError:
            return
        for node in body:
            if type(node).__name__ not in ("Import", "ImportFrom") and len(body) > 1:
                first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
                yield first - 1, node.end_lineno or node.lineno
        return
    start: int | None = None
    lines = lines_of(file.after)
    found: list[tuple[int, int]] = []
    for number, line in enumerate([*lines, "\n"]):
        if line.strip() and start is None:
            start = number
        elif not line.strip() and start is not None:
            found.append((start, number))
            start = None
    yield from found if len(found) > 1 else ()


def _mutate_python(file: ChangedFile, text: str) -> Iterator[Mutation]:
    wanted = changed_lines(file)
    try:
        sites = find_sites(text, [*OPERATORS, *WIDER])
    except SourceError:  # written for another Python: rules for its text would be guesses
        return
    for site in sites:
        if site.line in wanted:
            yield Mutation(file.path, site.operator, apply(text, site).encode(), _literal(site.before))


def _literal(text: str) -> str:
    """Returns the value of a literal as text; empty for expressions and for `True`, `False` and `None`."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    return str(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else ""


def _mutate_text(file: ChangedFile, text: str) -> Iterator[Mutation]:
    family = language_of(file.path, text.encode())
    if family is not None:
        # Counted as `str.splitlines` counts, which knows more line ends than a compiler does.
        wanted = changed_lines(file) if len(lines_of(text)) == len(text.splitlines()) else None
        for site in textual_sites(text, family, wanted):
            yield Mutation(file.path, site.operator, apply(text, site).encode(), _named_by(site))


def _named_by(site: Site) -> str:
    """Returns the literal that is changed, or the command or option of a shell program."""
    if site.operator not in ("shell_option", "shell_order", "shell_stage"):
        return _literal(site.before)
    word = re.search(r"\w+", site.before or site.text)
    return word[0] if word else ""


def _mutate_outputs(file: ChangedFile, text: str) -> Iterator[Mutation]:
    lines = lines_of(text)
    yield Mutation(file.path, "output-emptied", b"")
    yield Mutation(file.path, "output-halved", text[: len(text) // 2].encode())
    if len(lines) > 1:
        yield _mutation(file, "last-line-lost", lines[:-1])
    wanted = changed_lines(file)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    numbers = [
        (starts[n - 1] + match.start(), match[0]) for n in sorted(wanted) for match in _NUMBER.finditer(lines[n - 1])
    ]
    for at, number in numbers[:: max(1, -(-len(numbers) // MOST_NUMBERS))]:
        new = text[:at] + _shifted(number) + text[at + len(number) :]
        yield Mutation(file.path, "number-shifted", new.encode(), number)


def _shifted(number: str) -> str:
    """Returns the number plus one, with the same count of decimals."""
    whole, point, rest = number.partition(".")
    if number.startswith("-"):
        return str(int(whole) - 1) + point + rest
    return str(int(whole) + 1).zfill(len(whole)) + point + rest


def _mutate_binary(file: ChangedFile) -> Iterator[Mutation]:
    data = file.solution_file.after
    if data and file.role == "data":
        yield Mutation(file.path, "output-emptied", b"")
        yield Mutation(file.path, "output-halved", data[: len(data) // 2])
