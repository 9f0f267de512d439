"""Volatile text: parts of outputs that differ between runs of the same actions, such as times and temporary names.

`VOLATILE` is the table of replacements made before two outputs are compared, `VOLATILE_PATHS` of paths whose content is
excluded from the comparison of two states. A task adds patterns with `[metadata.assay] volatile`. Pure. Invariant:
every pattern is linear in the text, a task's too, because its language has no nested repetition.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

VolatileKind = Literal["time", "duration", "name", "process", "address", "ordering", "task"]
MOST_TEXT = 1 << 20
"""Maximum normalised characters of an output; the rest is compared verbatim."""
MOST_OWN, LONGEST_OWN = 100, 300
_PLACES = {
    "<number>": r"[+-]?+\d++(?>(?:\.\d++)?)",
    "<word>": r"[^\s\"'<>,;()\[\]{}]++",
    "<hex>": r"(?>(?:0x)?)[0-9a-fA-F]++",
    "<rest>": r"[^\n]*+",
}
_PLACE = re.compile("|".join(map(re.escape, _PLACES)))


class Volatile(NamedTuple):
    """One kind of volatile text."""

    name: str
    kind: VolatileKind
    pattern: re.Pattern[str]
    example: str
    put: str | Callable[[re.Match[str]], str] = ""
    """Replacement; default `<NAME>`."""


class NormalText(NamedTuple):
    """Normalised text, and the names of the applied replacements."""

    text: str
    names: tuple[str, ...]


def _sorted_set(found: re.Match[str]) -> str:
    """Sorts the members of a displayed set; other text is unchanged."""
    text = found[0]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return text
    return "{" + ", ".join(sorted(map(repr, value))) + "}" if isinstance(value, set) else text


_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_CLOCK = r"\d{1,2}:\d{2}(?>(?::\d{2}(?>(?:[.,]\d{1,9})?))?)"


def _row(name: str, kind: VolatileKind, pattern: str, example: str, put: str = "") -> Volatile:
    return Volatile(name, kind, re.compile(pattern), example, put)


VOLATILE: tuple[Volatile, ...] = (
    _row(
        "pytest-time",
        "duration",
        r"\bin \d{1,9}(?>(?:\.\d{1,9})?)s(?>(?: \(\d{1,4}:\d{2}:\d{2}\))?)",
        "3 passed in 0.12s",
    ),
    _row("ruler", "duration", r"={4,300}", "===== 3 passed in 0.12s ====="),
    _row(
        "iso-time",
        "time",
        rf"\b\d{{4}}-\d{{2}}-\d{{2}}(?>(?:[T ]{_CLOCK}(?>(?:Z|[+-]\d{{2}}:?\d{{2}})?))?)",
        "2026-11-22T01:35:00Z",
    ),
    _row(
        "mail-time",
        "time",
        rf"\b{_DAY},? (?:\d{{1,2}} {_MONTH}|{_MONTH} {{1,2}}\d{{1,2}})(?>(?: \d{{4}})?) {_CLOCK}"
        rf"(?>(?: (?:[AP]M|[A-Z]{{3,4}}|[+-]\d{{4}}))?)(?>(?: \d{{4}})?)",
        "Sun Nov 22 01:35:00 UTC 2026",
    ),
    _row("listing-time", "time", rf"\b{_MONTH} {{1,2}}\d{{1,2}} {{1,2}}(?:\d{{2}}:\d{{2}}|\d{{4}})\b", "Nov 22 01:35"),
    _row("clock", "time", r"\b\d{1,2}:\d{2}:\d{2}(?>(?:[.,]\d{1,9})?)\b", "01:35:00.123"),
    _row("epoch", "time", r"\b1[6-9]\d{8}(?>(?:\d{3}|\.\d{1,9})?)\b", "1795311300.25"),
    _row("shell-time", "duration", r"\b(?:real|user|sys)[\t ]++\d{1,9}m\d{1,9}(?>(?:\.\d{1,9})?)s", "real\t0m0.012s"),
    _row(
        "duration",
        "duration",
        r"\b\d{1,9}(?>(?:\.\d{1,9})?) ?(?:ns|us|\u00b5s|ms|msec|milliseconds?|s|secs?|seconds?|minutes?)\b",
        "took 12.5 ms",
    ),
    _row("temporary-name", "name", r"\btmp[a-z0-9_]{8}\b", "/tmp/tmpab12cd_9"),
    _row(
        "temporary-name",
        "name",
        r"(?<=/tmp/)[a-z][a-z_]{0,30}(?:-|\.)(?=[a-z]{0,6}[0-9_][a-z0-9_])[a-z0-9_]{8}\b",
        "/tmp/build-ab12cd_9",
    ),
    _row("temporary-name", "name", r"\btmp\.[A-Za-z0-9]{6,12}\b", "tmp.Xa81kQ20Zz"),
    _row("pytest-folder", "name", r"\bpytest-of-[\w.-]{1,60}/pytest-\d{1,9}\b", "/tmp/pytest-of-agent/pytest-0"),
    _row(
        "uuid",
        "name",
        r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
        "0f8fad5b-d9cb-469f-a165-70867728950e",
    ),
    _row("port", "name", r"(?<=127\.0\.0\.1:)\d{1,5}\b|(?<=localhost:)\d{1,5}\b", "http://127.0.0.1:41234"),
    _row("process-id", "process", r"(?i)\b(?:pid|ppid|tid)(?:[ =:#]|\s*+is ){1,3}\d{1,9}\b", "killed PID 4211"),
    _row("job", "process", r"(?m)^\[\d{1,4}\][+-]? {1,2}\d{1,9}$", "[1] 4211"),
    _row("proc-path", "process", r"(?<=/proc/)\d{1,9}(?=/)", "/proc/4211/status"),
    _row("address", "address", r"\b0x[0-9a-f]{6,16}\b", "<object at 0x7f3a2c1d90>"),
    _row("hash-seed", "ordering", r"PYTHONHASHSEED=\d{1,10}", "PYTHONHASHSEED=20261"),
    Volatile("set", "ordering", re.compile(r"\{[^{}:\n]{1,2000}\}"), "{'b', 'a'}", _sorted_set),
)

_PATHS = (
    (re.compile(r"/__pycache__(?:/|$)|\.py[co]$"), "byte code holds the time of its source"),
    (re.compile(r"/\.(?:pytest|mypy|ruff)_cache(?:/|$)|/\.hypothesis(?:/|$)"), "caches of tools"),
    (re.compile(r"/\.git/(?:index$|logs(?:/|$)|ORIG_HEAD$|FETCH_HEAD$)"), "git's index and logs hold times"),
    (re.compile(r"/\.coverage(?:\.[\w.-]{1,100})?$"), "data of coverage hold times and process ids"),
    (re.compile(r"/\.(?:bash_history|python_history|viminfo|lesshst|wget-hsts)$"), "histories of programs"),
)
VOLATILE_PATHS: tuple[tuple[str, str], ...] = tuple((pattern.pattern, why) for pattern, why in _PATHS)
"""Volatile paths, as regular expressions, with the reason."""


def compile_patterns(patterns: Iterable[str]) -> tuple[Volatile, ...]:
    """Compiles a task's own patterns.

    Args:
        patterns: Literal text with placeholders: `<number>`, `<word>`, `<hex>`, and, only at the end, `<rest>` of the
            line.

    Raises:
        ValueError: A pattern is too long, has only placeholders, or has `<rest>` elsewhere; the message names it.
    """
    given = tuple(patterns)
    if len(given) > MOST_OWN:
        raise ValueError(f"{len(given)} volatile patterns: at most {MOST_OWN}")
    return tuple(_compile_pattern(pattern) for pattern in given)


def _compile_pattern(pattern: str) -> Volatile:
    literal = _PLACE.sub("", pattern)
    rest = pattern.find("<rest>")
    if not literal.strip() or len(pattern) > LONGEST_OWN or "\n" in pattern:
        raise ValueError(
            f"the volatile pattern {pattern[:60]!r} must hold some literal text in one line of at most {LONGEST_OWN}"
        )
    if 0 <= rest < len(pattern) - len("<rest>"):
        raise ValueError(f"the volatile pattern {pattern[:60]!r} has <rest> elsewhere than at its end")
    parts, at = [], 0
    for found in _PLACE.finditer(pattern):
        parts += [re.escape(pattern[at : found.start()]), _PLACES[found[0]]]
        at = found.end()
    compiled = re.compile("".join([*parts, re.escape(pattern[at:])]))
    return Volatile(f"task: {pattern}", "task", compiled, pattern, "<task>")


def normalise(text: str, more: Sequence[Volatile] = ()) -> NormalText:
    """Replaces volatile text; the task's own patterns come first."""
    head, tail = text[:MOST_TEXT], text[MOST_TEXT:]
    names: dict[str, None] = {}
    for row in (*more, *VOLATILE):
        put = row.put or f"<{row.name}>"
        new = row.pattern.sub(put if callable(put) else put.replace("\\", "\\\\"), head)
        if new != head:
            names[row.name] = None
            head = new
    return NormalText(head + tail, tuple(names))


def is_volatile_path(path: str) -> bool:
    """Returns whether a path's content is volatile."""
    return any(pattern.search(path) for pattern, _ in _PATHS)
