"""Reads the text of an accessibility tree back: what a page shows, what it offers, and what it asks to confirm. Pure.

It knows no more than an agent that reads the tree. Lines of the tree are those of `tree`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

_TEXT: Final = r'"(?:[^"\\]|\\.)*"'
PART: Final = re.compile(rf"{_TEXT}|(?:\[(\d+)\] )?([a-z]+) ({_TEXT})?((?: [a-z]+={_TEXT}| [a-z0-9]+)*)")
"""An element of a line, or a quoted text, which is passed over whole: what a page says never reads as an element."""
_QUOTED: Final = re.compile(_TEXT)
_ADDRESS: Final = re.compile(rf"^Address: ({_TEXT})$", re.MULTILINE)
CODE: Final = re.compile(r"[A-Z][A-Z-]*-\d{3,}")
_NAMELESS: Final = frozenset({"alert", "dialog"})
_CONFIRMS: Final = ("Confirm", "Yes")
_ENTRIES: Final = frozenset({"textbox", "searchbox", "combobox", "listbox", "radio", "checkbox"})
_OPTIONAL: Final = " (optional)"
SKIP_LINK: Final = "Skip to content"
"""Name of the link that leads past the navigation, within the page."""


class Part(NamedTuple):
    """An element in the tree."""

    depth: int
    number: str
    role: str
    name: str
    rest: str

    def field(self, name: str) -> str:
        """Returns a further text of the element, such as its value or options; empty without it."""
        found = re.search(rf" {name}=({_TEXT})", self.rest)
        return "" if found is None else _unquote(found[1])

    @property
    def options(self) -> tuple[str, ...]:
        """Labels of the options of a list."""
        return tuple(option for option in self.field("options").split(" | ") if option)


class Entry(NamedTuple):
    """A field of a form."""

    label: str
    options: tuple[str, ...]
    """Labels of what can be chosen; empty for a text."""


class Offer(NamedTuple):
    """A link or form of a page."""

    kind: str
    """`link` or `form`."""
    label: str
    entries: tuple[Entry, ...] = ()


class PageView(msgspec.Struct, frozen=True, dict=True):
    """A page as its tree shows it."""

    address: str
    heading: str
    terms: tuple[tuple[str, str], ...]
    """Values that the page shows, with what they are called."""
    parts: tuple[Part, ...]
    content: tuple[str, ...]
    """Other texts of its main part, outside of forms."""
    codes: frozenset[str]
    """Texts in it that look like identifiers."""
    first: int = 0
    """Position of the first element of its main part."""
    last: int = 0
    """Position after the last element of its main part."""

    @cached_property
    def values(self) -> Mapping[str, str]:
        """Values by name, all in lower case."""
        return {name.lower(): value.lower() for name, value in self.terms}

    @property
    def path(self) -> str:
        """Path of its address."""
        return urlsplit(self.address).path

    @property
    def is_alert(self) -> bool:
        """True if something is reported to be wrong."""
        return any(part.role == "alert" for part in self.parts)

    @cached_property
    def offers(self) -> tuple[Offer, ...]:
        """Forms and links of the whole page, each label once."""
        return _offers(self.parts)

    @cached_property
    def main_offers(self) -> tuple[Offer, ...]:
        """Forms and links of its main part."""
        return _offers(self.parts[self.first : self.last])

    def element(self, number: str) -> Part | None:
        """Returns the element of a number; None if the page has none."""
        return next((part for part in self.parts if part.number == number), None) if number else None

    def form_of(self, element: Part) -> str:
        """Returns the label of the form that an element is in; empty without one."""
        form = self._ancestor(element, "form")
        return "" if form is None else form.name

    def form_parts(self, element: Part) -> tuple[Part, ...]:
        """Returns what the form that an element is in holds; outside of a form, nothing."""
        form = self._ancestor(element, "form")
        if form is None:
            return ()
        at = self.parts.index(form)
        return tuple(itertools.takewhile(lambda one: one.depth > form.depth, self.parts[at + 1 :]))

    def label_of(self, element: Part) -> str:
        """Returns what a field is called: of a radio button, the name of its group."""
        group = self._ancestor(element, "group") if element.role == "radio" else None
        return (element.name if group is None else group.name).removesuffix(_OPTIONAL)

    def _ancestor(self, element: Part, role: str) -> Part | None:
        depth = element.depth
        for part in reversed(self.parts[: self.parts.index(element)]):
            if part.depth < depth:
                depth = part.depth
                if part.role == role:
                    return part
        return None


def read_view(tree: str) -> PageView:
    """Returns what a tree shows."""
    reader = _Reader()
    for line in tree.splitlines():
        reader.read(line)
    address = _ADDRESS.search(tree)
    parts = reader.parts
    heading = next((part.name for part in parts if part.role == "heading" and "level 1" in part.rest), "")
    return PageView(
        "" if address is None else _unquote(address[1]),
        heading,
        tuple(reader.terms),
        tuple(parts),
        tuple(reader.content),
        frozenset(CODE.findall(tree)),
        reader.first,
        reader.last,
    )


class _Reader:
    """Collects what lines of a tree show."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.terms: list[tuple[str, str]] = []
        self.content: list[str] = []
        self.first = self.last = 0
        self._main = self._form = -1
        """Depth of the part of the page that the line is in; -1 outside of it."""

    def read(self, line: str) -> None:
        """Takes the next line."""
        depth, bare = len(line) - len(line.lstrip(" ")), line.strip()
        role = bare.partition("] ")[2 if bare.startswith("[") else 0].partition(" ")[0]
        if role == "main":
            self._main, self.first = depth, len(self.parts)
        elif depth <= self._main:
            self._main = -1
        if role == "form":
            self._form = depth
        elif depth <= self._form:
            self._form = -1
        term = self.parts[-1] if self.parts and self.parts[-1].role == "term" else None
        found = [Part(depth, "", role, "", "")] if role in _NAMELESS else list(_parts_of(bare, depth))
        self.parts += found
        is_value = term is not None and bool(found) and found[0].role == "definition"
        if is_value and term is not None:
            self.terms.append((term.name, found[0].name))
        is_heading = role == "heading" and bool(found) and "level 1" in found[0].rest
        if self._main >= 0:
            self.last = len(self.parts)
            texts = [_unquote(text) for text in _QUOTED.findall(bare)]
            if texts and self._form < 0 and not (is_value or is_heading or role == "term"):
                self.content.append(" | ".join(texts))


def _offers(parts: Sequence[Part]) -> tuple[Offer, ...]:
    forms = [_form_offer(parts, at) for at, part in enumerate(parts) if part.role == "form"]
    links = [Offer("link", part.name) for part in parts if part.role == "link" and part.name]
    return tuple(dict.fromkeys([*forms, *links]))


def _parts_of(line: str, depth: int) -> Iterator[Part]:
    for found in PART.finditer(line):
        number, role, name, rest = found.groups()
        if role is not None and (name is not None or number is not None):
            yield Part(depth, number or "", role, _unquote(name or '""'), rest)


def _form_offer(parts: Sequence[Part], at: int) -> Offer:
    entries: dict[str, list[str]] = {}
    group, depth = "", 0
    for part in itertools.takewhile(lambda one: one.depth > parts[at].depth, parts[at + 1 :]):
        if part.role == "group":
            group, depth = part.name, part.depth
        elif part.role in _ENTRIES:
            is_radio = part.role == "radio"
            label = (group if is_radio and part.depth > depth else part.name).removesuffix(_OPTIONAL)
            entries.setdefault(label, []).extend([part.name] if is_radio else part.options)
    return Offer("form", parts[at].name, tuple(Entry(label, tuple(found)) for label, found in entries.items()))


def confirmation(view: PageView) -> Part | None:
    """Returns the button that says yes, where a page asks whether to do what was sent; None where it does not."""
    if "confirm" not in view.heading.lower() and not any(part.role == "dialog" for part in view.parts):
        return None
    return next((part for part in view.parts if part.role == "button" and part.name in _CONFIRMS), None)


def _unquote(text: str) -> str:
    try:
        return str(msgspec.json.decode(text))
    except msgspec.DecodeError:
        return text
