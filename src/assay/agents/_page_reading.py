"""Reads goals and pages for a search: which values a request wants, and what can be done on a page. Pure.

A page is read from the text of its accessibility tree alone, as an agent sees it. An act is a link, or a form with one
choice of values and its button.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from assay.environments.browser.page_text import PageView, Part, confirmation

from .frontier import is_irreversible

_WISH: Final = re.compile(r"^- ([^:\n]+): (.+)$", re.MULTILINE)
_TITLE: Final = re.compile(r"current screen is “([^”]+)”")
_MOST_CHOICES: Final = 12
"""Choices of values of one form."""


class Goal(NamedTuple):
    """Wish of a request."""

    title: str
    """Heading of the last page; empty if any will do."""
    wishes: Mapping[str, str]
    """Values by name, in lower case."""


class Act(NamedTuple):
    """Calls of the browser's tools that are one step of a search."""

    about: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...]

    @property
    def words(self) -> str:
        """Its name on the page, without the values that are chosen."""
        return self.about.partition(":")[0]

    @property
    def is_irreversible(self) -> bool:
        """True if its words say that it cannot be taken back."""
        return is_irreversible(self.words)


def read_goal(instruction: str) -> Goal:
    """Returns the wanted values and heading of a request."""
    text = instruction.partition("\n\n")[0]
    title = _TITLE.search(text)
    wishes = {name.strip().lower(): value.strip().lower() for name, value in _WISH.findall(text)}
    return Goal("" if title is None else title[1], wishes)


def acts_on(view: PageView, codes: Sequence[str]) -> Iterator[Act]:
    """Yields what can be done on a page: its forms with each choice of values, and its links where it has no form."""
    start = next((at for at, part in enumerate(view.parts) if part.role == "heading" and "level 1" in part.rest), 0)
    forms = [at for at, part in enumerate(view.parts) if part.role == "form" and at >= start]
    for at in forms:
        yield from _acts_of_form(view.parts, at, codes)
    seen: set[str] = set()
    for part in view.parts[start:] if not forms else ():
        if part.role == "link" and part.name not in seen:
            seen.add(part.name)
            yield Act(part.name, (("click", {"bid": part.number}),))


def _acts_of_form(parts: Sequence[Part], at: int, codes: Sequence[str]) -> Iterator[Act]:
    inside = list(itertools.takewhile(lambda part: part.depth > parts[at].depth, parts[at + 1 :]))
    button = next((part for part in inside if part.role == "button"), None)
    if button is None:
        return
    choices: list[list[tuple[str, tuple[str, Mapping[str, Any]]]]] = []
    radios = [part for part in inside if part.role == "radio"]
    if radios:
        choices.append([(part.name, ("click", {"bid": part.number})) for part in radios])
    for part in inside:
        if part.role == "combobox":
            choices.append([(o, ("select_option", {"bid": part.number, "options": o})) for o in part.options])
        elif part.role in ("textbox", "searchbox"):
            choices.append([(code, ("fill", {"bid": part.number, "value": code})) for code in codes])
    for chosen in itertools.islice(itertools.product(*choices), _MOST_CHOICES):
        words = ", ".join(text for text, _ in chosen)
        about = parts[at].name + (f": {words}" if words else "")
        yield Act(about, (*(call for _, call in chosen), ("click", {"bid": button.number})))


def confirming_click(view: PageView) -> tuple[str, Mapping[str, Any]] | None:
    """Returns the click that says yes, where a page asks whether to do what was sent; None where it does not."""
    button = confirmation(view)
    return None if button is None else ("click", {"bid": button.number})


def distance(goal: Goal, first: Mapping[str, str], known: Mapping[str, str], heading: str) -> int:
    """Returns an estimate of the steps that are left: wishes that are not seen to hold, values that changed and should
    not have, and the last page."""
    missing = sum(known.get(name) != value for name, value in goal.wishes.items())
    spoilt = sum(name not in goal.wishes and known.get(name) != value for name, value in first.items())
    return 2 * missing + 2 * spoilt + (bool(goal.title) and heading != goal.title)
