"""Actions of BrowserGym: Python calls in a text, read as tool calls and never run."""

from __future__ import annotations

import ast
import math
from typing import Any, Final, NamedTuple

_LONGEST: Final = 20_000
_LARGEST: Final = 1 << 63
_PARAMETERS: Final = {
    "clear": ("bid",),
    "click": ("bid", "button", "modifiers"),
    "dblclick": ("bid", "button", "modifiers"),
    "drag_and_drop": ("from_bid", "to_bid"),
    "fill": ("bid", "value"),
    "focus": ("bid",),
    "goto": ("url",),
    "hover": ("bid",),
    "keyboard_down": ("key",),
    "keyboard_insert_text": ("text",),
    "keyboard_press": ("key",),
    "keyboard_type": ("text",),
    "keyboard_up": ("key",),
    "mouse_click": ("x", "y", "button"),
    "mouse_dblclick": ("x", "y", "button"),
    "mouse_down": ("x", "y", "button"),
    "mouse_drag_and_drop": ("from_x", "from_y", "to_x", "to_y"),
    "mouse_move": ("x", "y"),
    "mouse_up": ("x", "y", "button"),
    "mouse_upload_file": ("x", "y", "file"),
    "noop": ("wait_ms",),
    "press": ("bid", "key_comb"),
    "report_infeasible": ("reason",),
    "scroll": ("delta_x", "delta_y"),
    "select_option": ("bid", "options"),
    "send_msg_to_user": ("text",),
    "tab_focus": ("index",),
    "upload_file": ("bid", "file"),
}
"""Parameters of the actions, in order (BrowserGym 0.14)."""


class ActionCall(NamedTuple):
    """One call of an action."""

    name: str
    arguments: dict[str, Any]


def parse_action(text: str) -> list[ActionCall] | None:
    """Returns the calls of an action's text; None for a text that is anything but calls with literal arguments."""
    if len(text) > _LONGEST:
        return None
    try:
        body = ast.parse(text.strip()).body
        found = [_read_call(statement) for statement in body]
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        return None
    calls = [call for call in found if call is not None]
    return calls if calls and len(calls) == len(found) else None


def _read_call(statement: ast.stmt) -> ActionCall | None:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    names = _PARAMETERS.get(call.func.id, ())
    values = [ast.literal_eval(argument) for argument in call.args]
    given = {names[at] if at < len(names) else f"argument {at + 1}": value for at, value in enumerate(values)}
    named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg is not None}
    if len(named) < len(call.keywords) or not given.keys().isdisjoint(named):
        return None
    return ActionCall(call.func.id, _as_data({**given, **named}))


def _as_data(value: Any) -> Any:
    """Returns a literal as JSON data. Raises `ValueError` for one that JSON, or a record, does not have."""
    if isinstance(value, str):
        value.encode()  # raises for half a surrogate pair
        return value
    if (isinstance(value, int) and abs(value) >= _LARGEST) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError("a number is too large")
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_as_data(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {_as_data(key): _as_data(item) for key, item in value.items()}
    raise ValueError(f"{type(value).__name__} is not JSON")
