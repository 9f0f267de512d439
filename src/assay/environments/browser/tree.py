"""Accessibility tree of a page as text, with stable numbers for elements that can be acted on.

A number belongs to one element as long as its document lives. In the next document of a tab an element with the same
role, name, target and position among its equals has the same number, so that navigation and forms keep theirs, and a
tree can be shown as the changes from the one before. A number is never given to something else.

Texts of the page are quoted, so that no text of a page can look like a line of the tree.
"""

from __future__ import annotations

import collections
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import msgspec

MOST_SHOWN: Final = 60_000
"""Characters of a tree that are shown."""
_MOST_CHANGED: Final = 0.6
"""Share of changed lines beyond which the whole tree is shown."""
_CONTEXT: Final = 1
_IN_ONE_LINE: Final = frozenset({"row", "listitem", "definition"})
_OF_LINES: Final = frozenset({"row", "listitem", "definition", "list", "table", "heading"})
"""Roles that have lines of their own wherever they are."""
_MOST_PARTS: Final = 2
_CELLS: Final = frozenset({"cell", "gridcell", "columnheader", "rowheader"})
_MOST_COMPARED: Final = 1_000_000
"""Pairs of equal lines beyond which two trees are not compared, because that would take seconds."""
_MOST_KEYS: Final = 50_000
"""Elements of earlier documents that are remembered."""
_HIDDEN: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that JSON leaves as they are and that end lines or change the direction of what follows."""


class Node(msgspec.Struct, frozen=True):
    """A node, as `walker.js` reports it."""

    d: int
    """Depth."""
    r: str
    """Role."""
    t: str = ""
    """Name, or the text of a text."""
    s: tuple[str, ...] = ()
    """States."""
    v: str | None = None
    """Value."""
    n: int | None = None
    """Number of the element in its document; None for what cannot be acted on."""
    f: tuple[str, ...] = ()
    """Attributes `name`, `href`, `type`, `value`, and the address of its form."""
    o: tuple[str, ...] = ()
    """Labels of the options of a list."""
    b: tuple[int, int, int, int] | None = None
    """Left, top, width and height in pixels of the viewport."""

    @property
    def attributes(self) -> Mapping[str, str]:
        """The attributes by name; empty ones are absent."""
        return {
            key: value for key, value in zip(("name", "href", "type", "value", "form"), self.f, strict=False) if value
        }


class PageTree(msgspec.Struct, frozen=True):
    """A page, as `walker.js` reports it."""

    url: str
    title: str
    nodes: tuple[Node, ...]
    cut: bool = False
    """True if the page has more nodes than are reported."""
    dialog: bool = False
    """True if a modal dialog is open, which alone is reported."""
    scroll: tuple[int, int] = (0, 0)
    size: tuple[int, int] = (0, 0)
    kept: dict[str, Any] = {}
    """Content of the document beside its markup, as `keeper.js` reports it."""


class Element(msgspec.Struct, frozen=True):
    """An element that has a number."""

    document: int
    """Number of the document in its tab."""
    number: int
    """Number in the document."""
    node: Node


class Counter:
    """Gives numbers, each once."""

    def __init__(self) -> None:
        self.following = 1

    def take(self) -> int:
        """Returns the next number."""
        number = self.following
        self.following += 1
        return number


class Numbering:
    """Numbers of the elements of one tab. Tabs of one attempt share the counter."""

    def __init__(self, counter: Counter | None = None) -> None:
        self._counter = Counter() if counter is None else counter
        self.elements: dict[int, Element] = {}
        """Elements of the tree read last, by number."""
        self._by_key: dict[bytes, int] = {}
        self._by_element: dict[tuple[int, int], int] = {}
        self._document_of: dict[int, int] = {}
        self._document = -1

    @property
    def keys(self) -> tuple[tuple[bytes, int], ...]:
        """Numbers of elements by key, the oldest first."""
        return tuple(self._by_key.items())

    def restore(self, keys: Iterable[tuple[bytes, int]]) -> None:
        """Sets the numbers of a tab that was kept, before its first tree is read."""
        self._by_key = dict(keys)

    def assign(self, document: int, tree: PageTree) -> list[int | None]:
        """Returns the number of each node; None for those that cannot be acted on."""
        self._forget(document)
        self.elements = {}
        seen: dict[tuple[Any, ...], int] = {}
        numbers: list[int | None] = []
        for node in tree.nodes:
            if node.n is None:
                numbers.append(None)
                continue
            alike = (node.r, node.t, node.f)
            seen[alike] = seen.get(alike, 0) + 1
            key = blake2b(msgspec.json.encode((*alike, seen[alike])), digest_size=16).digest()
            number = self._number((document, node.n), key)
            self.elements[number] = Element(document, node.n, node)
            numbers.append(number)
        return numbers

    def _number(self, element: tuple[int, int], key: bytes) -> int:
        number = self._by_element.get(element)
        if number is None:
            number = self._by_key.get(key)
            if number is None or self._document_of.get(number) == element[0]:
                number = self._counter.take()
            self._by_element[element] = number
            self._document_of[number] = element[0]
        self._by_key.pop(key, None)
        self._by_key[key] = number  # the last one is the youngest
        return number

    def _forget(self, document: int) -> None:
        """Forgets elements of other documents, and the oldest keys where they are too many."""
        if document != self._document:
            self._document = document
            self._by_element, self._document_of = {}, {}
        while len(self._by_key) > _MOST_KEYS:
            del self._by_key[next(iter(self._by_key))]


def render_lines(tree: PageTree, numbers: Sequence[int | None]) -> list[str]:
    """Returns the tree, one line a node. Unless boxes are shown, a row of a table is one line with its cells, and an
    entry of a list with at most two parts is one line with them."""
    nodes, lines, at = tree.nodes, list[str](), 0
    while at < len(nodes):
        end = at + 1
        if nodes[at].r in _IN_ONE_LINE and nodes[at].b is None:
            while end < len(nodes) and nodes[end].d > nodes[at].d:
                end += 1
            inner = nodes[at + 1 : end]
            is_long = nodes[at].r != "row" and len(inner) > _MOST_PARTS
            if is_long or any(node.r in _OF_LINES for node in inner):  # such as a table in a cell
                end = at + 1
        part = list(zip(nodes[at:end], numbers[at:end], strict=True))
        lines.append(_line(*part[0]) if end == at + 1 else _row(part) if nodes[at].r == "row" else _entry(part))
        at = end
    return lines


def _entry(part: Sequence[tuple[Node, int | None]]) -> str:
    return _indent(part[0][0]) + " ".join(_words(node, number) for node, number in part)


def _row(part: Sequence[tuple[Node, int | None]]) -> str:
    """Returns a row and everything in it in one line, the cells between bars."""
    row = part[0][0]
    cells: list[list[str]] = []
    is_head = True
    for node, number in part[1:]:
        if node.d == row.d + 1:
            cells.append([])
            is_head = is_head and node.r == "columnheader"
        is_plain = node.r in _CELLS and number is None and not node.s
        text = (quote(node.t) if node.t else "") if is_plain else _words(node, number)
        if text and cells:
            cells[-1].append(text)
    head = "columns" if is_head and not row.s and part[0][1] is None else _words(row, part[0][1])
    return f"{_indent(row)}{head} " + " | ".join(" ".join(cell) or '""' for cell in cells)


def _line(node: Node, number: int | None) -> str:
    return _indent(node) + _words(node, number)


def _indent(node: Node) -> str:
    return "  " * min(node.d, 30)


def _words(node: Node, number: int | None) -> str:
    """Returns a node without its depth."""
    if node.r == "text":
        return quote(node.t)
    parts = [] if number is None else [f"[{number}]"]
    parts.append(_plain(node.r))
    if node.t:
        parts.append(quote(node.t))
    if node.v is not None:
        parts.append(f"value={quote(node.v)}")
    parts += [_plain(state) for state in node.s]
    if node.o:
        parts.append(f"options={quote(' | '.join(node.o))}")
    if node.b is not None:
        parts.append(f"at {','.join(map(str, node.b))}")
    return " ".join(parts)


def quote(text: str) -> str:
    """Returns a text of a page as JSON in one line, as which every reader of lines sees it; nothing turns it around."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", msgspec.json.encode(text).decode())


def _plain(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum() or letter in " -_")[:60]


def render_tree(lines: Sequence[str]) -> str:
    """Returns the lines as one text, cut at `MOST_SHOWN`."""
    text = "\n".join(lines)
    if len(text) <= MOST_SHOWN:
        return text
    kept = text[:MOST_SHOWN].rpartition("\n")[0]
    return f"{kept}\n... {len(lines) - kept.count(chr(10)) - 1} more lines: scroll, or search for less"


def render_changes(before: Sequence[str], after: Sequence[str]) -> str | None:
    """Returns the lines that went (-) and came (+) since the last tree; None if it is shorter to show all of it."""
    if not before:
        return None
    counts = collections.Counter(before)
    if sum(counts[line] for line in after) > _MOST_COMPARED:
        return None
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    shown: list[str] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            shown += [f"- {line}" for line in before[a:b]] + [f"+ {line}" for line in after[c:d]]
        elif len(shown):
            shown += [f"  {line}" for line in after[c : min(c + _CONTEXT, d)]]
    changed = sum(not line.startswith("  ") for line in shown)
    if changed > _MOST_CHANGED * len(after):
        return None
    return "\n".join(shown) if changed else "(nothing changed)"
