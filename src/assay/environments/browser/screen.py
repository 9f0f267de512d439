"""A page after an act, as it is recorded."""

from __future__ import annotations

from typing import NamedTuple


class Point(NamedTuple):
    """A point of the viewport, in pixels."""

    x: float
    y: float


class Screen(NamedTuple):
    """A page after an act."""

    act: str
    """Name of the tool."""
    url: str
    title: str
    tree: str
    """Accessibility tree."""
    image: bytes | None
    """WebP; None if no picture was taken."""
    point: Point | None
    """Where the act pointed to."""
