"""The tool of computer-use models: what its actions are in the browser's own vocabulary."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from assay.environments.browser import vocabulary
from assay.environments.browser.computer import SPEC, translate
from assay.environments.browser.picture_options import PictureOptions
from assay.environments.browser.tools import _TOOLS as TOOLS
from assay.environments.browser.tools import BrowserTools

pytestmark = pytest.mark.quick
PLACE = {"coordinate": [30, 40]}
AT = {"x": 30.0, "y": 40.0}


@pytest.mark.parametrize(
    ("arguments", "name", "expected"),
    [
        ({"action": "screenshot"}, "screenshot", {}),
        ({"action": "left_click", **PLACE}, "mouse_click", {**AT, "button": "left"}),
        ({"action": "middle_click", **PLACE}, "mouse_click", {**AT, "button": "middle"}),
        ({"action": "double_click", **PLACE}, "mouse_dblclick", AT),
        ({"action": "mouse_move", **PLACE}, "mouse_move", AT),
        ({"action": "left_mouse_up", **PLACE}, "mouse_up", AT),
        ({"action": "scroll", **PLACE, "scroll_amount": 3}, "scroll_at", {**AT, "dx": 0, "dy": 300}),
        ({"action": "scroll", **PLACE, "scroll_direction": "left"}, "scroll_at", {**AT, "dx": -500, "dy": 0}),
        (
            {"action": "left_click_drag", **PLACE, "start_coordinate": [1, 2]},
            "mouse_drag_and_drop",
            {"from_x": 1.0, "from_y": 2.0, "to_x": 30.0, "to_y": 40.0},
        ),
        ({"action": "key", "text": "ctrl+shift+Return"}, "keyboard_press", {"key": "Control+Shift+Enter"}),
        ({"action": "key", "text": "a"}, "keyboard_press", {"key": "a"}),
        ({"action": "type", "text": "a+b"}, "keyboard_type", {"text": "a+b"}),
        ({"action": "wait", "duration": 0.5}, "noop", {"wait_ms": 500.0}),
    ],
)
def test_an_action_is_an_act_that_the_browser_takes(arguments: dict[str, Any], name: str, expected: Any) -> None:
    act = translate(arguments)
    assert act == (name, expected)
    msgspec.convert(act.arguments, TOOLS[name][0])


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"action": "left_click"}, "needs `coordinate`"),
        ({"action": "left_click_drag", **PLACE}, "needs `start_coordinate`"),
        ({"action": "key"}, "needs `text`"),
        ({"action": "triple_click", **PLACE}, "Invalid enum value"),
        ({"action": "left_click", "coordinate": [1, 2, 3]}, "length 2"),
        ({}, "required field `action`"),
    ],
)
def test_what_names_no_act_is_refused_in_words(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        translate(arguments)


def test_the_tool_is_offered_where_it_is_asked_for() -> None:
    assert SPEC not in BrowserTools.specs()
    assert BrowserTools.specs(PictureOptions(computer=True))[-1] is SPEC
    assert vocabulary.MouseClick.__struct_fields__ == ("x", "y", "button")
