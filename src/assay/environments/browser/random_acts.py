"""Random acts on a page: what somebody does who cannot read but uses everything that the page offers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from assay.records import ToolCall, canonical_bytes

from .tab import Tab

_BACK: Final = 0.03
_MOST_TEXT: Final = 60
_TEXTBOXES: Final = frozenset({"textbox", "searchbox", "spinbutton"})


class Control(NamedTuple):
    """An element that can be acted on."""

    role: str
    options: Sequence[str] = ()
    """Labels of the options of a list."""
    files: Sequence[str] = ()
    """Names of files, of a file field."""


def random_act(tab: Tab | None, draw: random.Random, files: Sequence[str] = ()) -> ToolCall | None:
    """Returns a random act on the page as it was read last: clicks, texts that stand on the page, options, files.

    Args:
        tab: Tab that is shown; None before the browser is open.
        draw: Source of randomness.
        files: Names of the files that can be chosen.
    """
    if tab is None or tab.last is None:
        return choose_act({}, (), draw)
    controls = {
        number: Control(one.node.r, one.node.o, files if one.node.attributes.get("type") == "file" else ())
        for number, one in tab.numbering.elements.items()
    }
    return choose_act(controls, (node.t for node in tab.last.tree.nodes), draw)


def choose_act(controls: Mapping[int, Control], texts: Iterable[str], draw: random.Random) -> ToolCall:
    """Returns a random act on a page by its controls, by number, and its texts; a look at a page without controls."""
    if not controls:
        return _call("read_page", {}, draw)
    if draw.random() < _BACK:
        return _call("go_back", {}, draw)
    number = draw.choice(sorted(controls))
    name, arguments = _act_on(controls[number], texts, draw)
    return _call(name, {"bid": str(number), **arguments}, draw)


def _act_on(control: Control, texts: Iterable[str], draw: random.Random) -> tuple[str, dict[str, Any]]:
    if control.role in _TEXTBOXES:
        short = sorted({text for text in texts if 0 < len(text) <= _MOST_TEXT})
        return "fill", {"value": draw.choice([*short, str(draw.randrange(100)), ""])}
    if control.files:
        return "upload_file", {"file": draw.choice(control.files)}
    if control.options:
        return "select_option", {"options": draw.choice(control.options)}
    return "click", {}


def _call(name: str, arguments: dict[str, Any], draw: random.Random) -> ToolCall:
    return ToolCall(f"r{draw.randrange(10**9)}", name, canonical_bytes(arguments).decode(), arguments)
