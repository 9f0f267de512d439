"""Acts on a tab: pointing, typing and choosing, as a person's mouse and keyboard do them."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit

from .keys import BUTTONS, MODIFIERS, parse_keys
from .screen import Point, PointedElement
from .tab import ActProblem, Tab

_MOST_TEXT: Final = 50_000
_MOST_MESSAGES: Final = 200
_MOST_SAID: Final = 100_000
"""Characters of all messages, which the final facts hold."""
_DRAG_STEPS: Final = 5


def element_number(bid: str) -> int:
    """Returns the number of an element as an agent writes it. Raises `ActProblem`."""
    bare = bid.strip().removeprefix("[").removesuffix("]")
    if not (bare.isascii() and bare.isdecimal() and len(bare) < 10):
        raise ActProblem(f"{bid[:40]!r} is not a number of an element: write one from the last tree, such as 12.")
    return int(bare)


def checked_address(address: str, home: str) -> str:
    """Returns an address of the same origin as `home`; a path is completed. Raises `ActProblem`."""
    origin = urlsplit(home)._replace(path="", query="", fragment="").geturl()
    stripped = address.strip()
    if stripped.startswith("/") and not stripped.startswith("//"):
        stripped = f"{origin}{stripped}"
    try:
        split = urlsplit(stripped)
    except ValueError:
        split = urlsplit("")
    if f"{split.scheme}://{split.netloc}" != origin or not stripped.isprintable():
        raise ActProblem(f"Only addresses that begin with {origin}/ can be loaded here.")
    return stripped


async def point_of(tab: Tab, number: int) -> Point:
    """Scrolls an element into view and returns its middle. Raises `ActProblem` if it cannot be pointed at."""
    found = await tab.evaluate("point", tab.element(number))
    require_done(found, number)
    return Point(float(found["x"]), float(found["y"]))


def require_done(found: Any, number: int) -> None:
    """Raises `ActProblem` for what `walker.js` says is wrong."""
    if not isinstance(found, dict) or "error" not in found:
        return
    kind = str(found.get("kind", ""))[:40]
    options = ", ".join(repr(str(option)) for option in (found.get("options") or ())[:40])
    messages = {
        "gone": f"The element [{number}] has left the page.",
        "hidden": f"The element [{number}] is not visible.",
        "covered": f"The element [{number}] is covered by another one ({str(found.get('by'))[:40]}).",
        "disabled": f"The element [{number}] cannot be changed now.",
        "not text": f"The element [{number}] is not a text field ({kind}): click it, or choose an option.",
        "not a list": f"The element [{number}] is not a list of options ({kind}): click it.",
        "invalid": f"The element [{number}] does not take this value: it is a field for {kind}, such as "
        f"{_EXAMPLES.get(kind, 'its own form')}.",
        "not a file field": f"The element [{number}] is not a file field ({kind}).",
        "one file": f"The element [{number}] takes one file at a time.",
        "one": f"The element [{number}] takes exactly one option.",
        "no option": f"The element [{number}] has no such option; it has {options}.",
    }
    raise ActProblem(messages.get(str(found["error"]), f"The element [{number}] cannot be used."))


_EXAMPLES: Final = {"date": "2026-03-02", "datetime-local": "2026-03-02T09:00", "time": "09:00", "month": "2026-03"}


async def element_at(tab: Tab, at: Point) -> PointedElement | None:
    """Returns the element of the last tree at a point; None without one, and if the page cannot tell."""
    try:
        found = await tab.evaluate("hit", at.x, at.y)
    except ActProblem:
        return None
    for number, element in tab.numbering.elements.items():
        if element.document == tab.document and element.number == found:
            return PointedElement(number, element.node.r, element.node.t)
    return None


async def click(tab: Tab, at: Point, button: str = "left", count: int = 1, modifiers: tuple[str, ...] = ()) -> None:
    """Clicks. Raises `ActProblem` for an unknown button or modifier."""
    flags = _flags(modifiers)
    _require_button(button)
    acts = [move(tab, at, flags)]
    for number in range(1, count + 1):
        for kind in ("mousePressed", "mouseReleased"):
            acts.append(_mouse(tab, kind, at, button, number, flags))
    await asyncio.gather(*acts)  # they are sent in this order, and none waits for the one before


async def move(tab: Tab, at: Point, flags: int = 0, held: str = "none") -> None:
    """Moves the pointer; `held` is the button that is down."""
    buttons = BUTTONS.get(held, 0)
    tab.pointer = at
    await tab.call(
        "Input.dispatchMouseEvent", type="mouseMoved", x=at.x, y=at.y, button=held, buttons=buttons, modifiers=flags
    )


async def press_button(tab: Tab, at: Point, button: str, *, is_down: bool) -> None:
    """Presses or releases a mouse button. Raises `ActProblem`."""
    await _mouse(tab, "mousePressed" if is_down else "mouseReleased", at, button, 1, 0)


async def _mouse(tab: Tab, kind: str, at: Point, button: str, count: int, flags: int) -> None:
    _require_button(button)
    down = BUTTONS[button] if kind == "mousePressed" else 0
    tab.is_held = bool(down)
    await tab.call(
        "Input.dispatchMouseEvent",
        type=kind,
        x=at.x,
        y=at.y,
        button=button,
        buttons=down,
        clickCount=count,
        modifiers=flags,
    )


def _require_button(button: str) -> None:
    if button not in BUTTONS:
        raise ActProblem(f"{button[:40]!r} is not a button: there are {', '.join(BUTTONS)}.")


async def drag(tab: Tab, start: Point, end: Point) -> None:
    """Drags from one point to another."""
    await move(tab, start)
    await press_button(tab, start, "left", is_down=True)
    for step in range(1, _DRAG_STEPS + 1):
        share = step / _DRAG_STEPS
        at = Point(start.x + (end.x - start.x) * share, start.y + (end.y - start.y) * share)
        await move(tab, at, held="left")
    await press_button(tab, end, "left", is_down=False)


async def scroll(tab: Tab, at: Point, dx: float, dy: float) -> None:
    """Turns the wheel over a point, by pixels."""
    await tab.call("Input.dispatchMouseEvent", type="mouseWheel", x=at.x, y=at.y, deltaX=dx, deltaY=dy)
    await asyncio.sleep(0.05)  # the wheel is handled by another thread of the browser, which no frame waits for


async def fill(tab: Tab, number: int, text: str) -> None:
    """Replaces what a text field holds. Raises `ActProblem`."""
    _require_short(text)
    found = await tab.evaluate("prepare", tab.element(number), text)
    require_done(found, number)
    if not found.get("type"):
        return
    if text:
        await tab.call("Input.insertText", text=text)
    else:
        await press(tab, "Delete")


async def choose(tab: Tab, number: int, options: tuple[str, ...]) -> None:
    """Chooses options of a list by label or value. Raises `ActProblem`."""
    require_done(await tab.evaluate("choose", tab.element(number), list(options)), number)


async def focus(tab: Tab, number: int) -> None:
    """Focuses an element. Raises `ActProblem`."""
    require_done(await tab.evaluate("focus", tab.element(number)), number)


async def press(tab: Tab, keys: str) -> None:
    """Presses keys, such as `Control+a`. Raises `ActProblem`."""
    stroke = parse_keys(keys)
    if stroke.uses_clipboard:
        await tab.evaluate("giveClipboard", tab.clipboard.text)
    for event in stroke.events():
        await tab.call("Input.dispatchKeyEvent", **event)
    if stroke.uses_clipboard:
        await tab.settle()  # such a key is handled by another process of the browser
        tab.clipboard.text = str(await tab.evaluate("takeClipboard"))


async def type_text(tab: Tab, text: str) -> None:
    """Types a text where the focus is. Raises `ActProblem`."""
    _require_short(text)
    for letter in text:
        if letter == "\n":
            await press(tab, "Enter")
        else:
            await tab.call("Input.dispatchKeyEvent", type="keyDown", key=letter, text=letter)
            await tab.call("Input.dispatchKeyEvent", type="keyUp", key=letter)


async def insert_text(tab: Tab, text: str) -> None:
    """Inserts a text where the focus is, at once. Raises `ActProblem`."""
    _require_short(text)
    await tab.call("Input.insertText", text=text)


def add_message(messages: list[tuple[str, str]], kind: str, text: str) -> str:
    """Adds what the agent says to its messages, and returns what it reads. Raises `ActProblem` if it is too much."""
    said = sum(len(earlier) for _, earlier in messages)
    if len(messages) >= _MOST_MESSAGES or said + len(text) > _MOST_SAID:
        raise ActProblem("Too much was said.")
    messages.append((kind, text))
    return "Noted."


def _require_short(text: str) -> None:
    if len(text) > _MOST_TEXT:
        raise ActProblem(f"A text has at most {_MOST_TEXT} characters.")


def _flags(modifiers: tuple[str, ...]) -> int:
    if unknown := [name for name in modifiers if name not in MODIFIERS]:
        raise ActProblem(f"{unknown[0][:40]!r} is not a modifier: there are {', '.join(MODIFIERS)}.")
    return sum({MODIFIERS[name] for name in modifiers})


async def go(tab: Tab, address: str) -> None:
    """Loads an address, which the caller has checked. Raises `ActProblem`."""
    result = await tab.call("Page.navigate", url=address)
    if result.get("errorText"):
        raise ActProblem(f"{address[:200]} could not be loaded: {str(result['errorText'])[:100]}.")


async def go_in_history(tab: Tab, steps: int) -> None:
    """Goes back (-1) or forward (1). Raises `ActProblem` at the end of the history."""
    history = await tab.call("Page.getNavigationHistory")
    entries, at = history.get("entries") or [], int(history.get("currentIndex", 0)) + steps
    if not 0 <= at < len(entries) or str(entries[at].get("url")) == "about:blank":
        raise ActProblem("The history ends here.")
    tab.is_in_history = True
    await tab.call("Page.navigateToHistoryEntry", entryId=entries[at].get("id"))
