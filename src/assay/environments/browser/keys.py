"""Keys and mouse buttons: from the names that people write to events of the DevTools protocol."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from .tab import ActProblem

MODIFIERS: Final = {"Alt": 1, "Control": 2, "ControlOrMeta": 2, "Meta": 4, "Shift": 8}
BUTTONS: Final = {"left": 1, "right": 2, "middle": 4}
_MOST_KEYS: Final = 80
_MODIFIER_CODES: Final = {"Alt": 18, "Control": 17, "ControlOrMeta": 17, "Meta": 91, "Shift": 16}
_NAMED: Final[dict[str, tuple[int, str]]] = {
    "Enter": (13, "\r"),
    "Tab": (9, ""),
    "Backspace": (8, ""),
    "Delete": (46, ""),
    "Escape": (27, ""),
    "Space": (32, " "),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "Home": (36, ""),
    "End": (35, ""),
    "PageUp": (33, ""),
    "PageDown": (34, ""),
    "Insert": (45, ""),
    **{f"F{number}": (111 + number, "") for number in range(1, 13)},
}


class KeyStroke(NamedTuple):
    """A key with its modifiers."""

    key: str
    code: int
    text: str
    modifiers: int
    held: tuple[str, ...]
    """Names of the modifiers, in the order in which they are pressed."""

    @property
    def uses_clipboard(self) -> bool:
        """True if it copies, cuts or pastes."""
        if self.key == "Insert":
            return self.modifiers in (MODIFIERS["Control"], MODIFIERS["Shift"])
        if self.key == "Delete":
            return self.modifiers == MODIFIERS["Shift"]
        return bool(self.modifiers & MODIFIERS["Control"]) and self.key.lower() in ("c", "x", "v")

    def events(self) -> list[dict[str, Any]]:
        """Returns the parameters of `Input.dispatchKeyEvent`, in order."""
        found: list[dict[str, Any]] = []
        flags = 0
        for name in self.held:
            flags |= MODIFIERS[name]
            found.append(modifier_event(name, flags, is_down=True))
        typed = {} if self.modifiers & ~MODIFIERS["Shift"] or not self.text else {"text": self.text}
        own = {"key": self.key, "windowsVirtualKeyCode": self.code, "modifiers": self.modifiers}
        found.append({"type": "keyDown" if typed else "rawKeyDown", **own, **typed})
        found.append({"type": "keyUp", **own})
        for name in reversed(self.held):
            flags &= ~MODIFIERS[name]
            found.append(modifier_event(name, flags, is_down=False))
        return found


def modifier_event(name: str, modifiers: int, *, is_down: bool) -> dict[str, Any]:
    """Returns the event of a modifier key."""
    key = "Control" if name == "ControlOrMeta" else name
    kind = "rawKeyDown" if is_down else "keyUp"
    return {"type": kind, "key": key, "windowsVirtualKeyCode": _MODIFIER_CODES[name], "modifiers": modifiers}


def parse_keys(text: str) -> KeyStroke:
    """Parses `Enter`, `a`, `Control+a`, `Shift+Tab`. Raises `ActProblem`."""
    if len(text) > _MOST_KEYS:
        raise ActProblem(f"Keys are written with at most {_MOST_KEYS} characters, such as Control+Shift+a.")
    *held, last = text.split("+") if text not in ("+", "") and not text.endswith("++") else [*text[:-2].split("+"), "+"]
    held = [name for name in held if name]
    if unknown := [name for name in held if name not in MODIFIERS]:
        raise ActProblem(f"{unknown[0][:40]!r} is not a modifier: there are {', '.join(MODIFIERS)}.")
    modifiers = 0
    for name in held:
        modifiers |= MODIFIERS[name]
    if last in _NAMED:
        code, typed = _NAMED[last]
        return KeyStroke(" " if last == "Space" else last, code, typed, modifiers, tuple(held))
    if len(last) != 1:
        raise ActProblem(f"{last[:40]!r} is not a key: write one character, or one of {', '.join(_NAMED)}.")
    code = ord(last.upper()) if last.isascii() and last.isalnum() else 0
    return KeyStroke(last, code, last, modifiers, tuple(held))
