"""Pictures with marks: the elements that are seen and can be acted on, each in a frame with its number.

The marks are painted on a picture that was taken, outside the document, so the page neither holds nor sees them. An
element has a mark if its box was the same before and after the picture was taken. Digits are made of rectangles: no
font of the machine decides how they look.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from assay.errors import EnvironmentFailure

from .tab import Tab

MOST_MARKS: Final = 300
"""Elements of a picture that are marked: the first ones in the order of the tree."""
_COLOURS: Final = ("#b00020", "#00539c", "#1b6e20", "#7a1fa2", "#a84300", "#00626b")
"""Dark enough for white digits (contrast at least 6 : 1)."""
_FRAME: Final = 2
_DOT: Final = 2
"""Pixels of a dot of a digit."""
_DIGITS: Final = (
    "111101101101111",
    "010110010010111",
    "111001111100111",
    "111001111001111",
    "101101111001001",
    "111100111001111",
    "111100111101111",
    "111001001001001",
    "111101111101111",
    "111101111001111",
)
"""Digits of 3 by 5 dots, line by line."""


class Rectangle(NamedTuple):
    """A rectangle in pixels of the viewport."""

    left: int
    top: int
    width: int
    height: int

    def overlap(self, other: Rectangle) -> int:
        """Returns the number of pixels that both have."""
        across = min(self.left + self.width, other.left + other.width) - max(self.left, other.left)
        down = min(self.top + self.height, other.top + other.height) - max(self.top, other.top)
        return max(across, 0) * max(down, 0)


class Mark(NamedTuple):
    """A marked element."""

    number: int
    box: Rectangle
    label: Rectangle
    """Where its number stands."""


class MarkedPicture(NamedTuple):
    """A picture with marks."""

    image: bytes
    """WebP or PNG, without loss."""
    marks: tuple[Mark, ...]


async def take_marked_picture(
    tab: Tab, width: int, height: int, form: Literal["webp", "png"] = "webp"
) -> MarkedPicture:
    """Returns the viewport of a tab with the elements of the tree read last. Raises `ActProblem`."""
    numbers = {element.number: number for number, element in tab.numbering.elements.items()}
    before = await _visible_boxes(tab, numbers)
    shot = await tab.capture("png")
    after = await _visible_boxes(tab, numbers)
    stayed = {number: box for number, box in before.items() if after.get(number) == box}
    marks = place_marks(stayed, width, height)
    painted = await tab.evaluate("paint", shot, [list(one) for mark in marks for one in _shapes(mark)], form)
    try:
        return MarkedPicture(base64.b64decode(painted, validate=True), marks)
    except (TypeError, ValueError, binascii.Error) as exc:
        raise EnvironmentFailure("the browser painted no picture") from exc


async def _visible_boxes(tab: Tab, numbers: Mapping[int, int]) -> dict[int, Rectangle]:
    """Returns the boxes of the elements that are seen, by their number in the tree and in its order."""
    found: list[list[Any]] = await tab.evaluate("seen", list(numbers)) or []
    return {numbers[one]: Rectangle(*(int(part) for part in box)) for one, *box in found[:MOST_MARKS]}


def place_marks(boxes: Mapping[int, Rectangle], width: int, height: int) -> tuple[Mark, ...]:
    """Returns the marks of elements. A label stands at a corner of its box, where it hides least of other labels and
    of elements; the first such place counts."""
    marks: list[Mark] = []
    for number, box in boxes.items():
        places = _places(number, box, width, height)
        hidden = [_hides(place, marks, boxes.values()) for place in places]
        marks.append(Mark(number, box, places[hidden.index(min(hidden))]))
    return tuple(marks)


def _places(number: int, box: Rectangle, width: int, height: int) -> Sequence[Rectangle]:
    wide, high = (3 * _DOT + 2) * len(str(number)) + 2, 5 * _DOT + 4
    right, bottom = box.left + box.width, box.top + box.height
    corners = (
        (right, box.top),  # words stand at the left as a rule
        (box.left - wide, box.top),
        (right - wide, box.top - high),
        (box.left, box.top - high),
        (box.left, bottom),
        (right - wide, bottom),
        (box.left, box.top),
        (right - wide, box.top),
    )
    return [
        Rectangle(max(min(left, width - wide), 0), max(min(top, height - high), 0), wide, high) for left, top in corners
    ]


def _hides(place: Rectangle, marks: Sequence[Mark], boxes: Any) -> tuple[int, int]:
    return sum(place.overlap(mark.label) for mark in marks), sum(place.overlap(box) for box in boxes)


def _shapes(mark: Mark) -> list[tuple[Any, ...]]:
    """Returns what is painted for a mark: colour, left, top, width and height of rectangles."""
    colour = _COLOURS[mark.number % len(_COLOURS)]
    left, top, width, height = mark.box
    edge_x, edge_y = min(_FRAME, width), min(_FRAME, height)
    shapes: list[tuple[Any, ...]] = [
        (colour, left, top, width, edge_y),
        (colour, left, top + height - edge_y, width, edge_y),
        (colour, left, top, edge_x, height),
        (colour, left + width - edge_x, top, edge_x, height),
        (colour, *mark.label),
    ]
    for at, digit in enumerate(str(mark.number)):
        x, y = mark.label.left + 2 + at * (3 * _DOT + 2), mark.label.top + 2
        shapes += [
            ("#ffffff", x + dot % 3 * _DOT, y + dot // 3 * _DOT, _DOT, _DOT)
            for dot, is_set in enumerate(_DIGITS[int(digit)])
            if is_set == "1"
        ]
    return shapes
