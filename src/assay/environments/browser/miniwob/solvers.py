"""Scripts for some pages of MiniWoB++: each reads the utterance and the tree, as an agent does, and names an act."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from assay.environments.browser.tab import Tab
from assay.environments.browser.tree import Node

Act = tuple[str, dict[str, Any]]


class _Control(NamedTuple):
    """An element that can be acted on."""

    bid: str
    node: Node


class _Page(NamedTuple):
    """A page as a script sees it."""

    said: str
    """The utterance."""
    nodes: tuple[Node, ...]
    controls: tuple[_Control, ...]
    acts: int
    """Acts that were made."""

    def having(self, role: str, name: str | None = None) -> list[_Control]:
        """Returns the controls of a role, with a name if one is given."""
        return [one for one in self.controls if one.node.r == role and name in (None, one.node.t)]

    def click(self, role: str, name: str) -> Act | None:
        """Returns the click on the first control of a role and a name, whatever its case."""
        found = [one for one in self.having(role) if one.node.t.lower() == name.lower()]
        return ("click", {"bid": found[0].bid}) if found else None

    @property
    def quoted(self) -> list[str]:
        """Texts that stand in quotes in the utterance."""
        return re.findall(r'"([^"]*)"', self.said)

    @property
    def texts(self) -> Iterator[str]:
        """Texts of the page that belong to no control, without the utterance."""
        return (node.t for node in self.nodes if node.r == "text" and node.t not in self.said)


def next_act(page: str, utterance: str, tab: Tab, acts: int) -> Act | None:
    """Returns the next act on a page; None without a script, or at its end."""
    script = SCRIPTS.get(page)
    if script is None or tab.last is None:
        return None
    controls = tuple(_Control(str(number), one.node) for number, one in tab.numbering.elements.items())
    return script(_Page(utterance, tab.last.tree.nodes, controls, acts))


def _fill(page: _Page, values: list[str], then: str = "Submit") -> Act | None:
    """Fills in the text fields in their order, and presses a button."""
    for field, value in zip(page.having("textbox"), values, strict=False):
        shown = "*" * len(value) if field.node.attributes.get("type") == "password" else value
        if field.node.v != shown:
            return "fill", {"bid": field.bid, "value": value}
    return page.click("button", then)


def _choose(page: _Page, role: str) -> Act | None:
    """Checks what the utterance lists, and nothing else."""
    wanted = _listed(page.said)
    for one in page.having(role):
        if (one.node.t in wanted) != ("checked" in one.node.s):
            return "click", {"bid": one.bid}
    return page.click("button", "Submit")


def _listed(said: str) -> list[str]:
    """Returns what stands after `Select`: one name, or several with commas between."""
    found = re.match(r"Select (.*?)(?: from the (?:scroll )?list)? and click Submit", said)
    names = [] if found is None else [name.strip() for name in found[1].split(",")]
    return [] if names == ["nothing"] else names


def _click_named(page: _Page) -> Act | None:
    return page.click("button", page.quoted[0])


def _click_dialog(page: _Page) -> Act | None:
    name = page.quoted[0]
    return page.click("button", "Close" if name == "x" else name)


def _click_in_order(page: _Page) -> Act | None:
    return page.click("button", ("ONE", "TWO")[page.acts]) if page.acts < 2 else None


def _focus(page: _Page) -> Act | None:
    found = re.search(r"(\d+)(?:st|nd|rd|th)", page.said)
    at = int(found[1]) - 1 if found else 0
    return "click", {"bid": page.having("textbox")[at].bid}


def _enter_cased(page: _Page) -> Act | None:
    text = page.quoted[0]
    return _fill(page, [text.upper() if "upper case" in page.said else text.lower()])


def _enter_date(page: _Page) -> Act | None:
    found = re.search(r"(\d\d)/(\d\d)/(\d{4})", page.said)
    if found is None:
        return None
    month, day, year = found.groups()
    is_native = page.having("textbox")[0].node.attributes.get("type") == "date"
    return _fill(page, [f"{year}-{month}-{day}" if is_native else found[0]])


def _enter_time(page: _Page) -> Act | None:
    found = re.search(r"(\d+):(\d\d) ([AP])M", page.said)
    if found is None:
        return None
    hour = int(found[1]) % 12 + (12 if found[3] == "P" else 0)
    is_native = page.having("textbox")[0].node.attributes.get("type") == "time"
    return _fill(page, [f"{hour:02}:{found[2]}" if is_native else found[0]])


def _choose_from_list(page: _Page) -> Act | None:
    wanted = _listed(page.said)
    field = next(one for one in page.controls if one.node.o)
    if sorted((field.node.v or "").split(", ")) != sorted(wanted):
        return "select_option", {"bid": field.bid, "options": wanted}
    return page.click("button", "Submit")


def _click_tab(page: _Page) -> Act | None:
    found = re.search(r"Tab #\d+", page.said)
    return None if found is None else page.click("tab", found[0])


def _expand(page: _Page) -> Act | None:
    if not page.acts:
        return "click", {"bid": page.having("tab")[0].bid}
    return page.click("button", "Submit")


def _read_table(page: _Page) -> Act | None:
    found = re.search(r"value of (.*?) into", page.said)
    cells = [node.t for node in page.nodes if node.r == "cell"]
    if found is None or found[1] not in cells:
        return None
    return _fill(page, [cells[cells.index(found[1]) + 1]])


def _calculate(page: _Page) -> Act | None:
    found = next((m for m in (re.search(r"(-?\d+) ([+\-x]) (-?\d+) =", text) for text in page.texts) if m), None)
    if found is None:
        return None
    one, other = int(found[1]), int(found[3])
    return _fill(page, [str({"+": one + other, "-": one - other, "x": one * other}[found[2]])])


def _solve(page: _Page) -> Act | None:
    pattern = r"(x|-?\d+) ([+\-]) (x|-?\d+) = (-?\d+)"
    found = next((m for m in (re.search(pattern, text) for text in page.texts) if m), None)
    if found is None:
        return None
    left, sign, right, result = found.groups()
    if left == "x":
        value = int(result) - int(right) if sign == "+" else int(result) + int(right)
    else:
        value = int(result) - int(left) if sign == "+" else int(left) - int(result)
    return _fill(page, [str(value)])


def _find_word(page: _Page) -> Act | None:
    found = re.search(r"(\d+)(?:st|nd|rd|th) word", page.said)
    words = max(page.texts, key=len, default="").split()
    if found is None or len(words) < int(found[1]):
        return None
    return _fill(page, [words[int(found[1]) - 1].strip(".,")])


def _mark_numbers(page: _Page) -> Act | None:
    numbers = [int(text) for text in page.texts if re.fullmatch(r"-?\d+", text)]
    if page.acts >= len(numbers):
        return page.click("button", "Submit")
    name = "Odd" if numbers[page.acts] % 2 else "Even"
    return "click", {"bid": page.having("button", name)[page.acts].bid}


def _copy(page: _Page) -> Act | None:
    fields = page.having("textbox")
    texts = [one for one in fields if one.node.attributes.get("type") == "textarea"]
    target = next((one for one in fields if one not in texts), None)
    if not texts or target is None:
        return None
    if target.node.v != texts[0].node.v:
        return "fill", {"bid": target.bid, "value": texts[0].node.v or ""}
    return page.click("button", "Submit")


SCRIPTS: Final[dict[str, Callable[[_Page], Act | None]]] = {
    "choose-list": _choose_from_list,
    "click-button": _click_named,
    "click-button-sequence": _click_in_order,
    "click-checkboxes": lambda page: _choose(page, "checkbox"),
    "click-checkboxes-large": lambda page: _choose(page, "checkbox"),
    "click-checkboxes-transfer": lambda page: _choose(page, "checkbox"),
    "click-collapsible": _expand,
    "click-dialog": lambda page: page.click("button", "Close"),
    "click-dialog-2": _click_dialog,
    "click-option": lambda page: _choose(page, "radio"),
    "click-scroll-list": _choose_from_list,
    "click-tab": _click_tab,
    "click-test": lambda page: page.click("button", "Click Me!"),
    "click-test-2": lambda page: page.click("button", "ONE"),
    "copy-paste": _copy,
    "enter-date": _enter_date,
    "enter-password": lambda page: _fill(page, page.quoted * 2),
    "enter-text": lambda page: _fill(page, page.quoted),
    "enter-text-2": _enter_cased,
    "enter-text-dynamic": lambda page: _fill(page, page.quoted),
    "enter-time": _enter_time,
    "find-word": _find_word,
    "focus-text": _focus,
    "focus-text-2": _focus,
    "login-user": lambda page: _fill(page, page.quoted, "Login"),
    "odd-or-even": _mark_numbers,
    "read-table": _read_table,
    "simple-algebra": _solve,
    "simple-arithmetic": _calculate,
    "unicode-test": _click_named,
}
"""The scripts by page."""
