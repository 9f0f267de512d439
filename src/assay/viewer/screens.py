"""The pages that a browser showed, beside the steps whose acts led to them.

An act in a browser leaves evidence of the kind `screen`: the page after it, and the point that it was aimed at. That
point lies on the page before it, which is the screen of the act before. Records are untrusted: a digest is shown only
if the evidence lists it among its blobs, and a point only if it is two finite numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from assay.errors import StoreError
from assay.records import Evidence, Step
from assay.store import BlobStore

SCREEN: Final = "screen"
"""Kind of the evidence."""
MOST_SCREENS: Final = 20
"""Screens listed beside a step."""
_QUOTED: Final = r'"(?:[^"\\\n]|\\.)*"?'
"""A quoted text; one without an end goes to the end of its line, so that it is read once."""
_IN_LINE: Final = re.compile(rf"{_QUOTED}|\[(\d+)\] ((?:[^\"|\n]|{_QUOTED})*)")
_MOST_TREE = 512 << 10
_MOST_TEXT = 300


def render_screens(
    step: Step, events: Sequence[int], before: int, found: Mapping[int, Evidence], blobs: BlobStore
) -> list[dict[str, Any]]:
    """Renders the screens of a step.

    Args:
        step: The step, whose calls name the elements.
        events: Numbers of the events with its screens, in order.
        before: Number of the event with the last screen before them; -1 without one.
        found: Evidence by event.
        blobs: The store of trees.

    Returns:
        One object a screen: `act`, `title`, `url`, `image` (digest or null), `before` (digest of the picture before the
        act), `point` (pixels in the picture before) and `target` (the element's line in the tree before, also of the
        element that a click at coordinates hit), each null where unknown.
    """
    made = []
    last = found.get(before)
    for position, event in enumerate(events):
        screen = found.get(event)
        if screen is None:
            continue
        data = screen.data
        made.append(
            {
                "act": _text(data.get("act")),
                "title": _text(data.get("title")),
                "url": _text(data.get("url")),
                "image": _listed(screen, "image"),
                "before": None if last is None else _listed(last, "image"),
                "point": _point(data.get("point")),
                "target": None if last is None else _target(_element(step, position, screen), last, blobs),
            }
        )
        last = screen
    return made


def _text(value: object) -> str | None:
    return value[:_MOST_TEXT] if isinstance(value, str) and value else None


def _listed(screen: Evidence, name: str) -> str | None:
    """Returns a digest that the evidence lists among its blobs."""
    digest = screen.data.get(name)
    return digest if isinstance(digest, str) and digest in screen.blobs else None


def _point(value: object) -> list[float] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    known = [float(one) for one in value if isinstance(one, int | float) and abs(one) < 1e6]
    return known if len(known) == 2 and all(map(math.isfinite, known)) else None


def _element(step: Step, position: int, screen: Evidence) -> object:
    """Returns the number of the element that a step's call names, or that it hit at coordinates."""
    parsed = step.tool_calls[position].parsed if position < len(step.tool_calls) else None
    hit = screen.data.get("hit")
    named = parsed.get("bid") if isinstance(parsed, dict) else None
    return hit.get("bid") if named is None and isinstance(hit, dict) else named


def _target(number: object, before: Evidence, blobs: BlobStore) -> str | None:
    """Returns what the tree before the act says of an element, such as `link "Orders"`."""
    tree = _listed(before, "tree")
    if tree is None or not isinstance(number, str) or not number.isascii() or not number.isdigit():
        return None
    try:
        text = blobs.get(tree, limit=_MOST_TREE).decode("utf-8", "replace")
    except StoreError:  # the tree may have been erased
        return None
    found = re.search(rf"^[ \t]*\[{number[:9]}\] (.*)$", text, re.MULTILINE)
    if found is not None:
        return found[1][:_MOST_TEXT]
    # Rows and entries of lists hold several elements in one line; a number in quotes is the page's own text.
    inside = (one[2].strip() for one in _IN_LINE.finditer(text) if one[1] == number)
    return next(inside, "")[:_MOST_TEXT] or None
