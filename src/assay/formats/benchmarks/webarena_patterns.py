"""Patterns of WebArena-Verified's tasks, matched by RE2, whose time grows with the text alone: tasks are a stranger's.

RE2 looks neither ahead nor back. What upstream's tasks need of that is split: `^(?!A)B$` and `^.*(?=A)(?=B)C$` are
patterns without, tried at the first place, or at each place on the first line. Other patterns that RE2 does not read
are `Uncovered`.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

MOST_MATCHED: Final = 4_000
"""Characters of a text that a pattern is tried on."""
_INSIDE: Final = r"(?:[^()\\^]|\\[^bBA]|\([^()?][^()^]*\)|\(\?:[^()^]*\))*"
_LOOK: Final = re.compile(rf"\(\?([=!])({_INSIDE})\)")
_WITH_LOOKS: Final = re.compile(rf"\^(?P<anywhere>\.\*)?(?P<looks>(?:\(\?[=!]{_INSIDE}\))+)(?P<rest>.*)", re.DOTALL)


class Uncovered(Exception):
    """A comparison that cannot be decided here. The message says why."""


class _Pattern(NamedTuple):
    is_anywhere: bool
    looks: tuple[tuple[bool, Any], ...]
    """Pairs: True if the pattern must match, and the pattern."""
    rest: Any


def matches(pattern: str, text: str, *, whole: bool = True, ignore_case: bool = True) -> bool:
    """Returns whether a pattern matches a text from its start, with `whole` to its end. Raises `Uncovered`."""
    if len(text) > MOST_MATCHED:
        raise Uncovered(f"a pattern is not tried on more than {MOST_MATCHED} characters")
    compiled = _split(pattern, ignore_case=ignore_case)
    try:
        return any(_matches_here(compiled, text[at:], whole=whole) for at in _places(compiled, text))
    except UnicodeEncodeError as exc:
        raise Uncovered("a pattern is not tried on a text that is not Unicode") from exc


def contains(pattern: str, text: str, *, ignore_case: bool) -> bool:
    """Returns whether a pattern matches somewhere in a text. Raises `Uncovered`."""
    if pattern.startswith("^"):
        return matches(pattern, text, whole=False, ignore_case=ignore_case)
    try:
        return bool(_compile(pattern, ignore_case=ignore_case).search(text))
    except UnicodeEncodeError as exc:
        raise Uncovered("a pattern is not tried on a text that is not Unicode") from exc


def _split(pattern: str, *, ignore_case: bool) -> _Pattern:
    found = _WITH_LOOKS.fullmatch(pattern)
    if found is None:
        return _Pattern(False, (), _compile(pattern, ignore_case=ignore_case))
    looks = tuple(
        (sign == "=", _compile(inside, ignore_case=ignore_case)) for sign, inside in _LOOK.findall(found["looks"])
    )
    return _Pattern(found["anywhere"] is not None, looks, _compile(found["rest"], ignore_case=ignore_case))


def _compile(pattern: str, *, ignore_case: bool) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as exc:
        raise Uncovered(f"the pattern {pattern[:80]} is not covered") from exc


def _places(compiled: _Pattern, text: str) -> range:
    return range(len(text.partition("\n")[0]) + 1 if compiled.is_anywhere else 1)


def _matches_here(compiled: _Pattern, text: str, *, whole: bool) -> bool:
    if any(bool(look.match(text)) is not wanted for wanted, look in compiled.looks):
        return False
    return bool(compiled.rest.fullmatch(text) if whole else compiled.rest.match(text))
