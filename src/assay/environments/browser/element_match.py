"""Finds the element of a page that an element of another page corresponds to: one site under two looks. Pure.

Elements correspond by role, name, label, the form that they are in, the texts around them (the row of a table, or the
entry of a list), and their rank in the form. Looks change numbers, positions, the words on buttons, tables to cards and
lists to radio buttons, and whether an act is confirmed.

Covered: a choice in a list that is radio buttons elsewhere, and the other way round. Not covered: a label in other
words, and two elements that everything says the same of, of which the first is taken.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import msgspec

from .page_moves import CLICKS
from .page_text import PART, PageView, Part, confirmation, read_view
from .recorded.tree_text import LISTS, TEXT_FIELDS

Matching = Literal["names", "elements"]
"""`names`: the first element with the same role and name; `elements`: by everything."""
_LEAST: Final = 3.0
"""Score that a match needs: a name or a form of its own."""
_ENTRIES: Final = frozenset({"row", "listitem"})
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


class LocatedElement(NamedTuple):
    """An element with what tells it apart."""

    part: Part
    label: str
    form: str
    rank: int
    """Number of elements of its role before it in its form."""
    around: frozenset[str]
    """Texts of the row or entry that it is in."""


class Page(msgspec.Struct, frozen=True, dict=True):
    """A page as its tree shows it."""

    tree: str

    @cached_property
    def view(self) -> PageView:
        """The tree, read."""
        return read_view(self.tree)

    @cached_property
    def places(self) -> Mapping[str, LocatedElement]:
        """Its elements by number, in order."""
        found: dict[str, LocatedElement] = {}
        ranks: Counter[tuple[str, str]] = Counter()
        around = _texts_around(self.tree)
        for part in self.view.parts:
            if part.number and part.number not in found:
                form = self.view.form_of(part)
                texts = around.get(part.number, frozenset())
                found[part.number] = LocatedElement(part, self.view.label_of(part), form, ranks[part.role, form], texts)
                ranks[part.role, form] += 1
        return found


class Correspondence(NamedTuple):
    """An act on one page as an act on another."""

    name: str
    arguments: dict[str, Any]


def carry_over(
    name: str, arguments: Mapping[str, Any], before: Page, now: Page, by: Matching = "elements"
) -> Correspondence | None:
    """Returns an act on an element of one page as an act on another page; None if nothing there corresponds.

    Args:
        name: Name of the tool.
        arguments: Its arguments, with the element's number in `bid`.
        before: The page on which it was done.
        now: The page on which it is to be done.
        by: What elements are matched by.
    """
    given = dict(arguments)
    place = before.places.get(str(given.get("bid", "")))
    if place is None:
        return None
    if by == "elements":
        choice = _choice(name, given, place)
        if choice is not None:
            return _choose(place, choice, now)
    found = (_match if by == "elements" else _match_name)(place, now.places.values())
    return None if found is None else Correspondence(name, {**given, "bid": found.part.number})


def is_confirming(name: str, arguments: Mapping[str, Any], page: Page) -> bool:
    """Returns whether an act says yes to what a page asks to confirm."""
    asked = confirmation(page.view)
    return asked is not None and name in CLICKS and arguments.get("bid") == asked.number


def _choice(name: str, arguments: Mapping[str, Any], place: LocatedElement) -> str | None:
    """Returns what an act chooses; None for an act that is no choice of one option."""
    if name == "select_option" and place.part.role in LISTS:
        options = arguments.get("options")
        texts = [options] if isinstance(options, str) else options
        return str(texts[0]) if isinstance(texts, list | tuple) and len(texts) == 1 else None
    return place.part.name if name in CLICKS and place.part.role == "radio" else None


def _choose(place: LocatedElement, choice: str, now: Page) -> Correspondence | None:
    fields = [
        one
        for one in now.places.values()
        if (one.part.role in LISTS and choice in one.part.options)
        or (one.part.role == "radio" and one.part.name == choice)
    ]
    found = _best(place, [one for one in fields if one.label == place.label] or fields)
    if found is None:
        return None
    if found.part.role == "radio":
        return Correspondence("click", {"bid": found.part.number})
    return Correspondence("select_option", {"bid": found.part.number, "options": choice})


def _match(place: LocatedElement, others: Iterable[LocatedElement]) -> LocatedElement | None:
    return _best(place, [one for one in others if _kind(one.part.role) == _kind(place.part.role)])


def _match_name(place: LocatedElement, others: Iterable[LocatedElement]) -> LocatedElement | None:
    return next((one for one in others if (one.part.role, one.part.name) == (place.part.role, place.part.name)), None)


def _best(place: LocatedElement, others: Iterable[LocatedElement]) -> LocatedElement | None:
    """Returns the place that is most alike, the first of equals; None if none is alike enough."""
    best = max(others, key=lambda one: likeness(place, one), default=None)
    return best if best is not None and likeness(place, best) >= _LEAST else None


def likeness(one: LocatedElement, other: LocatedElement) -> float:
    """Returns how alike two elements are, from 0 to 11.5. Ranks, which looks change, decide between equals alone."""
    texts = one.around | other.around
    shared = len(one.around & other.around) / len(texts) if texts else 0.0
    return (
        3.0 * (one.part.name == other.part.name != "")
        + 3.0 * (one.form == other.form != "")
        + 2.0 * (one.label == other.label != "")
        + 3.0 * shared
        + 0.5 * (one.rank == other.rank)
    )


def _kind(role: str) -> str:
    return "text" if role in TEXT_FIELDS else "list" if role in LISTS else role


def _texts_around(tree: str) -> dict[str, frozenset[str]]:
    """Returns the texts of the row or entry of each element by its number; elements outside of one are absent."""
    texts: dict[int, set[str]] = {}
    inside: dict[str, int] = {}
    entries: list[tuple[int, int]] = []
    for at, line in enumerate(tree.splitlines()):
        depth, bare = len(line) - len(line.lstrip(" ")), line.strip()
        while entries and entries[-1][0] >= depth:
            entries.pop()
        if bare.partition(" ")[0] in _ENTRIES:
            entries.append((depth, at))
        if entries:
            entry = entries[-1][1]
            texts.setdefault(entry, set()).update(_QUOTED.findall(bare))
            inside |= {found[1]: entry for found in PART.finditer(bare) if found[1]}
    return {number: frozenset(texts[entry]) for number, entry in inside.items()}
