"""Forms in the text of an accessibility tree: the values that they hold, and the text after one was set. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from assay.environments.browser.page_text import PART, PageView, Part, read_view
from assay.environments.browser.tree import quote

_TEXT: Final = r'"(?:[^"\\]|\\.)*"'
_VALUE: Final = re.compile(rf" value={_TEXT}")
CHECKED: Final = " checked"
TEXT_FIELDS: Final = frozenset({"textbox", "searchbox", "spinbutton"})
LISTS: Final = frozenset({"combobox", "listbox"})
CHOICES: Final = frozenset({"radio", "checkbox"})


class FormValue(NamedTuple):
    """A field of a form and what it holds."""

    label: str
    value: str


def form_values(view: PageView, parts: Sequence[Part]) -> tuple[FormValue, ...]:
    """Returns the values of a form's fields in order. Of a group of radio buttons it is the name of the chosen one,
    empty without one; of a checkbox `on` or `off`."""
    found: list[FormValue] = []
    groups: dict[str, int] = {}
    for part in parts:
        label = view.label_of(part)
        if part.role == "radio":
            at = groups.setdefault(label, len(found))
            if at == len(found):
                found.append(FormValue(label, ""))
            if CHECKED in part.rest:
                found[at] = FormValue(label, part.name)
        elif part.role == "checkbox":
            found.append(FormValue(label, "on" if CHECKED in part.rest else "off"))
        elif part.role in TEXT_FIELDS or part.role in LISTS:
            found.append(FormValue(label, part.field("value")))
    return tuple(found)


def set_value(tree: str, number: str, value: str) -> str:
    """Returns a tree with another value of a text field or list."""
    return _edit(tree, number, lambda rest: f" value={quote(value)}" + _VALUE.sub("", rest, count=1))


def toggle(tree: str, number: str) -> str:
    """Returns a tree after a click on a radio button, which unsets the others of its group, or on a checkbox."""
    view = read_view(tree)
    element = view.element(number)
    if element is None:
        return tree
    if element.role == "checkbox":
        return _mark(tree, number, is_set=CHECKED not in element.rest)
    label = view.label_of(element)
    for part in view.form_parts(element):
        if part.role == "radio" and view.label_of(part) == label:
            tree = _mark(tree, part.number, is_set=part.number == number)
    return tree


def _mark(tree: str, number: str, *, is_set: bool) -> str:
    return _edit(tree, number, lambda rest: rest.replace(CHECKED, "") + (CHECKED if is_set else ""))


def _edit(tree: str, number: str, change: Callable[[str], str]) -> str:
    """Returns a tree with a change of what follows the name of an element."""
    lines = tree.split("\n")
    for at, line in enumerate(lines):
        for found in PART.finditer(line):
            if number and found[1] == number:
                lines[at] = line[: found.start(4)] + change(found[4]) + line[found.end(4) :]
                return "\n".join(lines)
    return tree
