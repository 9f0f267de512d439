"""A recorded attempt on a small site, made by hand: two pages, a form, and a question whether to send it."""

from __future__ import annotations

from typing import Any

START = """Page: "Start"
Address: "http://door.test/"
[1] link "Skip to content"
main
  heading "Start" level 1
    [2] link "Hall"
    [3] link "Clock\""""
HALL = """Page: "Hall"
Address: "http://door.test/hall"
main
  heading "Hall" level 1
  term "Lamp"
  definition "off"
  form "Set lamp"
    group "Lamp"
      [4] radio "Off" checked
      [5] radio "On"
    [6] combobox "Colour" value="Choose" options="Choose | Red | Blue"
    [7] textbox "Note" value="" required
    [8] checkbox "Remember"
    [9] button "Set lamp\""""
FILLED = (
    HALL.replace('"Off" checked', '"Off"')
    .replace('"On"', '"On" checked')
    .replace('value="Choose"', 'value="Red"')
    .replace('"Note" value=""', '"Note" value="say \\"hi\\""')
)
ASKED = 'Page: "Sure?"\nAddress: "http://door.test/hall"\ndialog\n  [10] button "Yes"\n  [11] button "Back"'
DONE = HALL.replace('definition "off"', 'definition "on"')


def call(name: str, page: str, thought: str = "", **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments, "page": page, "thought": thought}


CALLS = [
    call("read_page", START),
    call("click", HALL, "Into the hall.", bid="2"),
    call("click", HALL.replace('"Off" checked', '"Off"').replace('"On"', '"On" checked'), bid="5"),
    call("select_option", FILLED.replace('value="say \\"hi\\""', 'value=""'), bid="6", options="Red"),
    call("fill", FILLED, bid="7", value='say "hi"'),
    call("click", ASKED, "Send it.", bid="9"),
    call("click", DONE, bid="10"),
]
"""Three steps: a link, a form, and the answer to its question."""
RIGHT: list[tuple[str, dict[str, Any]]] = [(one["name"], one["arguments"]) for one in CALLS]
