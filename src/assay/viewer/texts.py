"""Texts of a record in parts: their beginning and end, and the whole in pieces of bounded size.

A text is addressed by the number of its event and a JSON pointer (RFC 6901) into the event's body, a blob by its
digest. No answer holds more than `PART` characters of one text.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from assay.errors import UserError
from assay.store import BlobStore

PART: Final = 1 << 16
"""Characters (of a blob: bytes) in a piece."""
HEAD, TAIL = 4000, 2000
MOST_LINES: Final = 120
"""Lines of a text shown at first."""
MOST_NODES, MOST_DEEP, MOST_ENTRIES = 600, 12, 120
MOST_EXACT: Final = (1 << 53) - 1
"""Largest integer that JavaScript represents exactly."""
MOST_COUNTED: Final = 1 << 26
"""Line ends are counted in at most this many bytes of a blob before a piece."""


def pointer(*parts: str | int) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def resolve_pointer(body: Any, where: str) -> Any:
    """Returns the value at a JSON pointer. Raises `UserError` without one."""
    at = body
    for part in where.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(at, dict) and key in at:
            at = at[key]
        elif isinstance(at, list) and key.isascii() and key.isdecimal() and len(key) < 9 and int(key) < len(at):
            at = at[int(key)]
        else:
            raise UserError(f"the record has nothing at {where[:200]!r}")
    return at


def cut_text(text: str, at: str) -> dict[str, Any]:
    """Returns a text to show: a short one whole, else its beginning and end.

    Args:
        text: The text.
        at: Its address in the event, for requesting the rest.

    Returns:
        `text` and `at`, and of a long one `tail`, `length` (characters), `lines` and `line` (of the tail's beginning,
        from 1); of a picture `image` and `length`.
    """
    if text.startswith("data:image/"):
        return {"text": text[:40], "length": len(text), "image": True, "at": at}
    lines = text.count("\n") + 1
    if len(text) <= HEAD + TAIL and lines <= MOST_LINES:
        return {"text": text, "at": at}
    head, tail = _head(text), _end(text)
    if len(head) + len(tail) >= len(text):
        return {"text": text, "at": at}
    first = lines - tail.count("\n")
    return {"text": head, "tail": tail, "length": len(text), "lines": lines, "line": first, "at": at}


def _head(text: str) -> str:
    head = text[:HEAD]
    lines = head.split("\n", MOST_LINES * 2 // 3)
    if len(lines) > MOST_LINES * 2 // 3:
        return "\n".join(lines[:-1])
    last = head.rfind("\n")
    return head[:last] if last > HEAD // 2 else head


def _end(text: str) -> str:
    tail = text[-TAIL:]
    lines = tail.rsplit("\n", MOST_LINES // 3)
    if len(lines) > MOST_LINES // 3:
        return "\n".join(lines[1:])
    first = tail.find("\n")
    return tail[first + 1 :] if 0 <= first < TAIL // 2 else tail


class _Budget(msgspec.Struct):
    left: int = MOST_NODES


def json_tree(value: Any, at: str, budget: _Budget | None = None, deep: int = 0) -> list[Any]:
    """Returns a JSON value to show, as tagged nodes.

    Returns:
        `["s", cut]` for a text, `["v", value]` for null, numbers and booleans (an integer that JavaScript would round
        is text), `["o", [[key, node], ...], left out]`,
        `["a", [node, ...], left out]`, and `["x", pointer]` for a value that is too deep or too large.
    """
    budget = budget or _Budget()
    budget.left -= 1
    if isinstance(value, str):
        return ["s", cut_text(value, at)]
    if value is None or isinstance(value, bool | int | float):
        return ["v", str(value) if _is_rounded(value) else value]
    if deep >= MOST_DEEP or budget.left <= 0:
        return ["x", at]
    if isinstance(value, dict):
        shown: list[Any] = []
        for key, each in value.items():
            if len(shown) >= MOST_ENTRIES or budget.left <= 0:
                break
            shown.append([str(key)[:200], json_tree(each, at + pointer(str(key)), budget, deep + 1)])
        return ["o", shown, len(value) - len(shown)]
    nodes = []
    for position, each in enumerate(value):
        if position >= MOST_ENTRIES or budget.left <= 0:
            break
        nodes.append(json_tree(each, at + pointer(position), budget, deep + 1))
    return ["a", nodes, len(value) - len(nodes)]


def _is_rounded(value: object) -> bool:
    """Returns whether JavaScript would round an integer."""
    return isinstance(value, int) and abs(value) > MOST_EXACT


def text_part(value: Any, part: int) -> dict[str, Any]:
    """Returns a piece of a text, or of the indented JSON of another value.

    Returns:
        `text`, `part`, `parts`, `length`, `line` (of its beginning, from 1) and `lines`.

    Raises:
        UserError: It has no such piece.
    """
    text = value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    parts = max(-(-len(text) // PART), 1)
    if not 0 <= part < parts:
        raise UserError(f"the text has {parts} pieces, so piece {part} does not exist")
    start = part * PART
    return {
        "text": text[start : start + PART],
        "part": part,
        "parts": parts,
        "length": len(text),
        "line": text.count("\n", 0, start) + 1,
        "lines": text.count("\n") + 1,
    }


def blob_part(blobs: BlobStore, digest: str, part: int) -> dict[str, Any]:
    """Returns a piece of a blob as text, or as a hex dump where it begins with binary data.

    Returns:
        As `text_part`, `length` in bytes, `line` null beyond `MOST_COUNTED`, no `lines`; and `binary`.

    Raises:
        UserError: It has no such piece.
        StoreError: The blob does not exist.
    """
    with blobs.open(digest) as file:
        length = file.seek(0, 2)
        file.seek(0)
        binary = b"\0" in file.read(4096)
        size = PART // 4 if binary else PART
        parts = max(-(-length // size), 1)
        if not 0 <= part < parts:
            raise UserError(f"the blob has {parts} pieces, so piece {part} does not exist")
        start = part * size
        line = 1
        if not binary and start <= MOST_COUNTED:
            file.seek(0)
            line += sum(file.read(min(PART, start - at)).count(b"\n") for at in range(0, start, PART))
        file.seek(start)
        data = file.read(size + 3)
    part_json = {"part": part, "parts": parts, "length": length, "binary": binary}
    if binary:
        return part_json | {"text": _hexadecimal(data[:size], start), "line": None}
    return part_json | {
        "text": _whole_characters(data, size, part > 0),
        "line": line if start <= MOST_COUNTED else None,
    }


def _whole_characters(data: bytes, size: int, cut_before: bool) -> str:  # noqa: FBT001 - a fact, not a switch
    """Returns the characters that begin in the first `size` bytes; `data` has three more."""
    first = 0
    while cut_before and first < min(3, len(data)) and data[first] & 0xC0 == 0x80:
        first += 1
    last = min(size, len(data))
    while last < len(data) and data[last] & 0xC0 == 0x80:
        last += 1
    return data[first:last].decode("utf-8", "replace")


def _hexadecimal(data: bytes, start: int) -> str:
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start + at:08x}  {row.hex(' '):<47}  {shown}")
    return "\n".join(lines)
