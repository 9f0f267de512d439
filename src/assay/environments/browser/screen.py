"""A page after an act, as it is recorded."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Point(NamedTuple):
    """A point of the viewport, in pixels."""

    x: float
    y: float


class PointedElement(NamedTuple):
    """The element that an act at coordinates hit, as it was in the tree before the act."""

    number: int
    role: str
    name: str


class ControlBox(NamedTuple):
    """An element that can be acted on, as people see it."""

    number: int
    role: str
    name: str
    value: str
    states: tuple[str, ...]
    options: tuple[str, ...]
    """Labels of the options of a list."""
    box: tuple[int, int, int, int]
    """Left, top, width and height in pixels of the viewport."""


class PagePicture(NamedTuple):
    """A page as people see it."""

    url: str
    title: str
    width: int
    height: int
    image: bytes
    """WebP."""
    elements: tuple[ControlBox, ...]


class Target(msgspec.Struct, frozen=True):
    """An element that a shortest way may use next."""

    bid: str
    role: str
    name: str
    box: tuple[int, int, int, int] | None = None
    """Left, top, width and height in pixels of the picture before the act; None where it was not seen."""


class Aim(msgspec.Struct, frozen=True):
    """An act, and what it aimed at."""

    valid: bool
    """True for a known tool with valid arguments."""
    right: bool | None = None
    """True if it aimed at a target; None for acts that aim at no element, such as a key."""
    targets: tuple[Target, ...] = ()


class Screen(NamedTuple):
    """A page after an act."""

    act: str
    """Name of the tool."""
    url: str
    title: str
    tree: str
    """Accessibility tree."""
    image: bytes | None
    """WebP or PNG; None if no picture was taken."""
    point: Point | None
    """Where the act pointed to."""
    hit: PointedElement | None = None
    """Element that a click at coordinates hit; None for other acts, and where no element of the tree was."""
    marks: tuple[int, ...] | None = None
    """Numbers of the elements that are marked in the picture; None for a picture without marks."""
    aim: Aim | None = None
    """Aim of the act; None where aims are not judged."""
