"""Looks of a site, drawn from a seed: layout, colours, type, widgets and markup.

Two seeds give sites that a policy cannot tell apart by one skin: positions, tags, classes, kinds of widgets and the
words on buttons differ. What a site can do, and which calls its forms make, never depends on the theme.
"""

from __future__ import annotations

import random
from typing import Final, Literal, NamedTuple

Layout = Literal["side", "top", "end"]
Choices = Literal["select", "radio"]
Labels = Literal["above", "beside", "around"]
Rows = Literal["table", "cards"]
Confirmation = Literal["none", "dialog", "page"]
Dates = Literal["native", "text"]


class Palette(NamedTuple):
    """Colours as hexadecimal RGB; text on its ground has a contrast of at least 4.5."""

    ground: str
    text: str
    panel: str
    line: str
    accent: str
    on_accent: str


PALETTES: Final = (
    Palette("#ffffff", "#1d2433", "#f3f5f9", "#c6cedd", "#1f4fbf", "#ffffff"),
    Palette("#fbfaf6", "#2a2620", "#f1ede2", "#d3c9b3", "#8a3d0c", "#ffffff"),
    Palette("#f6fbf8", "#16302a", "#e6f2ec", "#b4d0c4", "#0d6b4f", "#ffffff"),
    Palette("#ffffff", "#202020", "#f2f2f2", "#bdbdbd", "#202020", "#ffffff"),
    Palette("#fdf7fa", "#361b2b", "#f6e7ef", "#dab9cb", "#96205f", "#ffffff"),
    Palette("#14181f", "#e8ecf2", "#1f2630", "#3d4858", "#8ab6ff", "#0d1117"),
    Palette("#101c1a", "#e3f0ec", "#19302c", "#35574f", "#6fd6b4", "#0a1513"),
    Palette("#f4f7fb", "#17263c", "#ffffff", "#b8c6da", "#5b2fb5", "#ffffff"),
)
_FONTS: Final = (
    '"DejaVu Sans", Arial, sans-serif',
    '"DejaVu Serif", Georgia, serif',
    '"DejaVu Sans Condensed", "DejaVu Sans", sans-serif',
)
_SUBMIT: Final = ("{title}", "Submit", "Send", "Continue", "Save")
_SEARCH: Final = ("Show", "Search", "Look up", "Find", "Go")
_ADD: Final = ("Add another", "One more", "Add a line")


class Theme(NamedTuple):
    """Everything about a site that its seed decides."""

    layout: Layout
    palette: Palette
    font: str
    size: int
    radius: int
    gap: int
    choices: Choices
    labels: Labels
    rows: Rows
    confirmation: Confirmation
    dates: Dates
    submit: str
    """Label of the button of an action; `{title}` stands for the action's own."""
    search: str
    add: str
    box: str
    """Tag of neutral containers."""
    prefix: str
    """Beginning of the names of classes."""

    def name(self, role: str) -> str:
        """Returns the class of a part of the page."""
        return f"{self.prefix}{role}"

    def stylesheet(self) -> bytes:
        """Returns the CSS. It refers to nothing outside."""
        return _stylesheet(self).encode()


def draw_theme(seed: int) -> Theme:
    """Returns the theme of a seed."""
    draw = random.Random(f"theme/{seed}")
    return Theme(
        layout=draw.choice(("side", "top", "end")),
        palette=draw.choice(PALETTES),
        font=draw.choice(_FONTS),
        size=draw.choice((14, 15, 16)),
        radius=draw.choice((0, 3, 8)),
        gap=draw.choice((8, 10, 14)),
        choices=draw.choice(("select", "radio")),
        labels=draw.choice(("above", "beside", "around")),
        rows=draw.choice(("table", "cards")),
        confirmation=draw.choice(("none", "dialog", "page")),
        dates=draw.choice(("native", "text")),
        submit=draw.choice(_SUBMIT),
        search=draw.choice(_SEARCH),
        add=draw.choice(_ADD),
        box=draw.choice(("div", "section", "article")),
        prefix=draw.choice(("", "x-", "ui-", "c_", f"k{draw.randrange(1000)}-")),
    )


def _stylesheet(theme: Theme) -> str:
    colours, gap = theme.palette, theme.gap
    name = theme.name
    side = "column" if theme.layout == "top" else "row"
    nav_width = "100%" if theme.layout == "top" else "15rem"
    columns = "14rem minmax(0, 34rem)" if theme.labels == "beside" else "minmax(0, 34rem)"
    return f"""\
* {{ box-sizing: border-box; }}
html {{ color-scheme: only {"dark" if _is_dark(colours) else "light"}; }}
body {{ margin: 0; background: {colours.ground}; color: {colours.text}; font: {theme.size}px/1.5 {theme.font}; }}
a {{ color: {colours.accent}; }}
h1 {{ font-size: 1.5em; margin: 0 0 {gap}px; }} h2 {{ font-size: 1.15em; margin: {2 * gap}px 0 {gap // 2}px; }}
.{name("skip")} {{ position: absolute; left: -99rem; }} .{name("skip")}:focus {{ left: {gap}px; }}
.{name("bar")} {{ background: {colours.accent}; color: {colours.on_accent}; padding: {gap}px {2 * gap}px; }}
.{name("bar")} a {{ color: {colours.on_accent}; font-weight: bold; text-decoration: none; margin-right: {2 * gap}px; }}
.{name("frame")} {{ display: flex; flex-direction: {side}; }}
.{name("menu")} {{ flex: none; width: {nav_width}; padding: {gap}px {2 * gap}px; background: {colours.panel}; }}
.{name("menu")} ul {{ list-style: none; margin: 0; padding: 0; {_menu_columns(theme)} }}
.{name("menu")} li {{ padding: {gap // 4}px 0; }}
main {{ flex: 1; min-width: 0; padding: {2 * gap}px; }}
.{name("fields")} {{ display: grid; grid-template-columns: {columns}; gap: {gap // 2}px {gap}px; align-items: start; }}
.{name("field")} {{ display: contents; }}
.{name("hint")} {{ grid-column: -2 / -1; font-size: 0.87em; margin: 0 0 {gap}px; }}
.{name("problem")} {{ grid-column: -2 / -1; margin: 0 0 {gap}px; border-left: 4px solid; padding-left: {gap}px; }}
input, select, textarea, button {{ font: inherit; color: inherit; background: {colours.ground}; max-width: 100%;
  border: 1px solid {colours.line}; border-radius: {theme.radius}px; padding: {gap // 2}px {gap}px; }}
input:not([type=checkbox]):not([type=radio]), select, textarea {{ width: 100%; }}
textarea {{ min-height: 8em; }}
button {{ background: {colours.accent}; color: {colours.on_accent}; border-color: {colours.accent}; }}
button.{name("quiet")} {{ background: {colours.panel}; color: {colours.text}; }}
fieldset {{ border: 1px solid {colours.line}; border-radius: {theme.radius}px; margin: 0; min-width: 0; }}
:focus-visible {{ outline: 3px solid {colours.accent}; outline-offset: 2px; }}
.{name("note")} {{ background: {colours.panel}; border: 1px solid {colours.line}; border-radius: {theme.radius}px;
  padding: {gap}px; margin: 0 0 {gap}px; }}
table {{ border-collapse: collapse; width: 100%; background: {colours.panel}; }}
caption {{ text-align: left; padding: {gap // 2}px 0; font-weight: bold; }}
th, td {{ border: 1px solid {colours.line}; padding: {gap // 2}px; text-align: left; vertical-align: top; }}
td, dd {{ overflow-wrap: anywhere; }}
dl {{ display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: {gap // 4}px {gap}px; margin: 0; }}
dt {{ font-weight: bold; }} dd {{ margin: 0; }}
.{name("cards")} {{ list-style: none; padding: 0; display: grid; gap: {gap}px; }}
.{name("cards")} > li {{ background: {colours.panel}; border: 1px solid {colours.line}; padding: {gap}px;
  border-radius: {theme.radius}px; }}
.{name("text")} {{ white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; margin: 0; }}
dialog {{ border: 1px solid {colours.line}; border-radius: {theme.radius}px; background: {colours.ground};
  color: {colours.text}; padding: {2 * gap}px; }}
.{name("row")} {{ display: flex; flex-wrap: wrap; gap: {gap}px; margin-top: {gap}px; }}
@media (max-width: 700px) {{ .{name("frame")} {{ flex-direction: column; }} .{name("menu")} {{ width: 100%; }}
  .{name("fields")} {{ grid-template-columns: minmax(0, 1fr); }} main {{ overflow-x: auto; }} }}
"""


def _menu_columns(theme: Theme) -> str:
    return "columns: 14rem;" if theme.layout == "top" else ""


def _is_dark(colours: Palette) -> bool:
    return luminance(colours.ground) < 0.2


def luminance(colour: str) -> float:
    """Returns the relative luminance of `#rrggbb`, from 0 for black to 1 for white (WCAG 2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
