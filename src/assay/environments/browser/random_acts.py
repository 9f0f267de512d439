"""Random acts on a page: what somebody does who cannot read but uses everything that the page offers."""

from __future__ import annotations

import random
from typing import Any, Final

from assay.records import ToolCall, canonical_bytes

from .tab import Tab
from .tree import Element, Node

_BACK: Final = 0.03
_MOST_TEXT: Final = 60
_TEXTBOXES: Final = frozenset({"textbox", "searchbox", "spinbutton"})


def random_act(tab: Tab | None, draw: random.Random) -> ToolCall | None:
    """Returns a random act on the page as it was read last: clicks, texts that stand on the page, options.

    Args:
        tab: Tab that is shown; None before the browser is open.
        draw: Source of randomness.
    """
    if tab is None or tab.last is None or not tab.numbering.elements:
        return _call("read_page", {}, draw)
    if draw.random() < _BACK:
        return _call("go_back", {}, draw)
    number = draw.choice(sorted(tab.numbering.elements))
    name, arguments = _act_on(tab.numbering.elements[number], tab.last.tree.nodes, draw)
    return _call(name, {"bid": str(number), **arguments}, draw)


def _act_on(element: Element, nodes: tuple[Node, ...], draw: random.Random) -> tuple[str, dict[str, Any]]:
    node = element.node
    if node.r in _TEXTBOXES:
        texts = sorted({found.t for found in nodes if 0 < len(found.t) <= _MOST_TEXT})
        return "fill", {"value": draw.choice([*texts, str(draw.randrange(100)), ""])}
    if node.o:
        return "select_option", {"options": draw.choice(node.o)}
    return "click", {}


def _call(name: str, arguments: dict[str, Any], draw: random.Random) -> ToolCall:
    return ToolCall(f"r{draw.randrange(10**9)}", name, canonical_bytes(arguments).decode(), arguments)
