"""Arguments of the tools of a browser, named as in BrowserGym; the docstrings are what agents read."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

Button = Literal["left", "middle", "right"]
Bid = Annotated[str, Meta(description="Number of an element in the last tree, such as 12", max_length=12)]
Pixel = Annotated[float, Meta(ge=0, le=10_000, description="Pixels of the viewport")]
Turn = Annotated[float, Meta(ge=-100_000, le=100_000, description="Pixels")]
MOST_WAIT_MS: Final = 10_000


class _Empty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Click(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Clicks an element."""

    bid: Bid
    button: Button = "left"
    modifiers: tuple[str, ...] = ()


class DblClick(Click, frozen=True, forbid_unknown_fields=True):
    """Clicks an element twice."""


class Hover(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Moves the pointer over an element."""

    bid: Bid


class Fill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replaces what a text field holds. Dates are written as 2026-03-02, times as 2026-03-02T09:00."""

    bid: Bid
    value: str


class Clear(Hover, frozen=True, forbid_unknown_fields=True):
    """Empties a text field."""


class Focus(Hover, frozen=True, forbid_unknown_fields=True):
    """Focuses an element."""


class SelectOption(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Chooses one or several options of a list, by label or value."""

    bid: Bid
    options: str | tuple[str, ...]


class UploadFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Chooses one or several files in a file field, by their names."""

    bid: Bid
    file: str | tuple[str, ...]


class Press(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Focuses an element and presses keys, such as Enter or Control+a."""

    bid: Bid
    key_comb: str


class DragAndDrop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Drags one element onto another."""

    from_bid: Bid
    to_bid: Bid


class Scroll(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Scrolls the page by pixels."""

    delta_x: Turn
    delta_y: Turn


class ScrollAt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Scrolls what is at a point by pixels."""

    x: Pixel
    y: Pixel
    dx: Turn
    dy: Turn


class MouseMove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Moves the pointer to a point."""

    x: Pixel
    y: Pixel


class MouseClick(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Clicks at a point."""

    x: Pixel
    y: Pixel
    button: Button = "left"


class MouseDblClick(MouseClick, frozen=True, forbid_unknown_fields=True):
    """Clicks twice at a point."""


class MouseDown(MouseClick, frozen=True, forbid_unknown_fields=True):
    """Presses a mouse button at a point and holds it."""


class MouseUp(MouseClick, frozen=True, forbid_unknown_fields=True):
    """Releases a mouse button at a point."""


class MouseDragAndDrop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Drags from one point to another."""

    from_x: Pixel
    from_y: Pixel
    to_x: Pixel
    to_y: Pixel


class KeyboardPress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Presses keys where the focus is, such as Enter or Control+a."""

    key: str


class KeyboardDown(KeyboardPress, frozen=True, forbid_unknown_fields=True):
    """Presses Alt, Control, Meta or Shift and holds it."""


class KeyboardUp(KeyboardPress, frozen=True, forbid_unknown_fields=True):
    """Releases Alt, Control, Meta or Shift."""


class KeyboardType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Types a text where the focus is, key by key."""

    text: str


class KeyboardInsertText(KeyboardType, frozen=True, forbid_unknown_fields=True):
    """Inserts a text where the focus is, at once."""


class Goto(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Loads an address of the site."""

    url: str


class GoBack(_Empty, frozen=True, forbid_unknown_fields=True):
    """Goes back in the history of the tab."""


class GoForward(_Empty, frozen=True, forbid_unknown_fields=True):
    """Goes forward in the history of the tab."""


class NewTab(_Empty, frozen=True, forbid_unknown_fields=True):
    """Opens a tab with the start page of the site."""


class TabClose(_Empty, frozen=True, forbid_unknown_fields=True):
    """Closes the tab."""


class TabFocus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Shows another tab; the first one is 0."""

    index: Annotated[int, Meta(ge=0, le=100)]


class Noop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Waits, and reads the page again."""

    wait_ms: Annotated[float, Meta(ge=0, le=MOST_WAIT_MS)] = 1000


class ReadPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Reads the page: as a tree, as its text, or as a tree with left, top, width and height of each element."""

    view: Literal["tree", "text", "layout"] = "tree"


class Screenshot(_Empty, frozen=True, forbid_unknown_fields=True):
    """Takes a picture of the page, which is stored with the record."""


class SendMsgToUser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Says something to the person who gave the task, such as an answer to their question."""

    text: str


class ReportInfeasible(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Says that the task cannot be done, and why."""

    reason: str
