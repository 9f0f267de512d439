"""The tool `computer` of computer-use models: one tool with an `action`, at coordinates of the picture.

Names of actions and arguments are those of Anthropic's computer-use tool. Each action is one act of `tools` under
BrowserGym's name, which does it and records it. Not covered: `triple_click`, `hold_key`, `cursor_position` and
modifiers of clicks.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from assay.environments.interface import ToolSpec
from assay.environments.schemas import flat_schema

NAME: Final = "computer"
_STEP: Final = 100
"""Pixels of a step of the wheel."""
_CLICKS: Final = {"left_click": "left", "right_click": "right", "middle_click": "middle"}
_BUTTONS: Final = {"left_mouse_down": "mouse_down", "left_mouse_up": "mouse_up"}
_WHEEL: Final = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
_KEYS: Final = {
    "ctrl": "Control",
    "control": "Control",
    "alt": "Alt",
    "shift": "Shift",
    "super": "Meta",
    "cmd": "Meta",
    "meta": "Meta",
    "return": "Enter",
    "enter": "Enter",
    "backspace": "Backspace",
    "page_up": "PageUp",
    "page_down": "PageDown",
    "left": "ArrowLeft",
    "right": "ArrowRight",
    "up": "ArrowUp",
    "down": "ArrowDown",
    "space": "Space",
    "esc": "Escape",
    "escape": "Escape",
    "tab": "Tab",
    "delete": "Delete",
    "home": "Home",
    "end": "End",
}
"""Names of keys in lower case, to those of `keys`."""
Coordinate = Annotated[tuple[float, float], Meta(description="x and y in pixels of the picture")]
Action = Literal[
    "screenshot", "left_click", "right_click", "middle_click", "double_click", "mouse_move", "left_click_drag",
    "left_mouse_down", "left_mouse_up", "scroll", "key", "type", "wait",
]  # fmt: skip


class Computer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Acts on the page by mouse and keys, at coordinates of the picture. `coordinate` is for clicks, moves, scrolling
    and the end of a drag, `start_coordinate` for its start, `text` for `key` (such as `ctrl+a`) and `type`."""

    action: Action
    coordinate: Coordinate | None = None
    start_coordinate: Coordinate | None = None
    text: str | None = None
    scroll_direction: Literal["up", "down", "left", "right"] = "down"
    scroll_amount: Annotated[int, Meta(ge=0, le=100)] = 5
    duration: Annotated[float, Meta(ge=0, le=10)] = 1.0


class BrowserAct(NamedTuple):
    """A call of a tool of the browser."""

    name: str
    arguments: dict[str, Any]


SPEC: Final = ToolSpec(NAME, " ".join((Computer.__doc__ or "").split()), flat_schema(Computer))


def translate(arguments: dict[str, Any]) -> BrowserAct:
    """Returns the act of an action. Raises `ValueError` for arguments that name none; the message says why."""
    asked = msgspec.convert(arguments, Computer)
    action = asked.action
    if action == "screenshot":
        return BrowserAct("screenshot", {})
    if action == "wait":
        return BrowserAct("noop", {"wait_ms": asked.duration * 1000})
    if action in ("key", "type"):
        if asked.text is None:
            raise ValueError(f"{action} needs `text`")
        if action == "type":
            return BrowserAct("keyboard_type", {"text": asked.text})
        return BrowserAct("keyboard_press", {"key": "+".join(_key(part) for part in asked.text.split("+"))})
    if asked.coordinate is None:
        raise ValueError(f"{action} needs `coordinate`")
    return _at(asked, *asked.coordinate)


def _at(asked: Computer, x: float, y: float) -> BrowserAct:
    action, place = asked.action, {"x": x, "y": y}
    if action in _CLICKS:
        return BrowserAct("mouse_click", {**place, "button": _CLICKS[action]})
    if action in _BUTTONS:
        return BrowserAct(_BUTTONS[action], place)
    if action == "double_click":
        return BrowserAct("mouse_dblclick", place)
    if action == "mouse_move":
        return BrowserAct("mouse_move", place)
    if action == "scroll":
        across, down = (part * asked.scroll_amount * _STEP for part in _WHEEL[asked.scroll_direction])
        return BrowserAct("scroll_at", {**place, "dx": across, "dy": down})
    if asked.start_coordinate is None:
        raise ValueError("left_click_drag needs `start_coordinate`")
    from_x, from_y = asked.start_coordinate
    return BrowserAct("mouse_drag_and_drop", {"from_x": from_x, "from_y": from_y, "to_x": x, "to_y": y})


def _key(part: str) -> str:
    return _KEYS.get(part.lower(), part)
