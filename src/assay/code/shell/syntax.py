"""Syntax trees of shell scripts, bounded in size and depth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

__all__ = ["MOST_DEPTH", "MOST_NODES", "MOST_TEXT", "Node", "UnreadableScript", "has_expansion", "parse_script"]

MOST_TEXT, MOST_NODES, MOST_DEPTH = 1 << 18, 60_000, 100
_TEXTS = frozenset({"string", "translated_string", "heredoc_body"})
_EXPANSION = re.compile(r"(?<!\\)(?:\\\\)*(?:`|\$[\w({?#@*!$\"'-])")


class UnreadableScript(ValueError):
    """A script that is too long, or too deeply nested, to be analysed."""


class Node:
    """A node of a syntax tree.

    Attributes:
        kind: The grammar's name for it.
        field: The name of its role in its parent, or an empty text.
        start: Offset of its first byte; `end` is that after its last one.
        line: Number of its first line, from 1.
    """

    __slots__ = ("_source", "children", "end", "field", "is_broken", "kind", "line", "start")

    def __init__(self, source: bytes, raw: Any, field: str) -> None:
        self._source = source
        self.kind: str = raw.type
        self.field = field
        self.start: int = raw.start_byte
        self.end: int = raw.end_byte
        self.line: int = raw.start_point[0] + 1
        self.is_broken: bool = raw.is_missing or raw.is_error
        self.children: list[Node] = []

    @property
    def text(self) -> str:
        """The source text of this node."""
        return self.between(self.start, self.end)

    def between(self, start: int, end: int) -> str:
        """Returns the source text between two offsets."""
        return self._source[start:end].decode(errors="replace")

    def child(self, *kinds: str) -> Node | None:
        """Returns the first child of one of these kinds."""
        return next((one for one in self.children if one.kind in kinds), None)

    def of_field(self, field: str) -> list[Node]:
        """Returns the children with this role."""
        return [one for one in self.children if one.field == field]

    @property
    def skipped_text(self) -> str:
        """Source text between the children that the grammar left out."""
        if self.kind in _TEXTS or not self.children:
            return ""
        ends = [self.start, *(one.end for one in self.children)]
        starts = [*(one.start for one in self.children), self.end]
        gaps = [self.between(end, start) for end, start in zip(ends, starts, strict=True) if end < start]
        return "".join(gap.replace("\\\n", "").strip() for gap in gaps)

    def walk(self) -> Iterator[Node]:
        """Yields this node and all below it."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))

    @property
    def has_hidden_expansion(self) -> bool:
        """A leaf of literal text that holds an expansion: the grammar did not resolve it."""
        return not self.children and has_expansion(self.text)


def has_expansion(text: str) -> bool:
    """Returns whether a text that is not within single quotes holds an expansion."""
    return _EXPANSION.search(text) is not None


def parse_script(text: str) -> Node:
    """Returns the tree of a script. Raises `UnreadableScript`."""
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    if len(text) > MOST_TEXT:
        message = f"a script of more than {MOST_TEXT} characters"
        raise UnreadableScript(message)
    source = text.encode(errors="replace")
    tree = Parser(Language(tree_sitter_bash.language())).parse(source)
    root = Node(source, tree.root_node, "")
    pending, count = [(root, tree.root_node, 0)], 1
    while pending:
        node, raw, depth = pending.pop()
        count += raw.child_count
        if count > MOST_NODES or depth > MOST_DEPTH:
            message = f"a script of more than {MOST_NODES} parts, or nested more than {MOST_DEPTH} deep"
            raise UnreadableScript(message)
        for index, child in enumerate(raw.children):
            one = Node(source, child, raw.field_name_for_child(index) or "")
            node.children.append(one)
            pending.append((one, child, depth + 1))
    return root
