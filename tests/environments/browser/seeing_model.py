"""A scripted model with vision: it clicks where a picture shows the frame of an element, by coordinates alone.

`scripted:tests.environments.browser.seeing_model:answer` is the model. The number of the element comes from the tree;
where it is comes from the pixels of the picture that the request holds.
"""

from __future__ import annotations

import base64
import re
import struct
import zlib
from typing import Any, NamedTuple

from assay.environments.browser.marks import _COLOURS as COLOURS
from assay.gateway.interface import ModelRequest

WANTED = re.compile(r'\[(\d+)\] (?:button "Click Me!|link ")')


class Pixels(NamedTuple):
    """A decoded picture: three bytes a pixel, line by line."""

    width: int
    height: int
    lines: list[bytes]


def decode_png(data: bytes) -> Pixels:
    """Decodes a PNG of 8 bits a channel without interlacing, as browsers write it."""
    at, packed, width, height, channels = 8, b"", 0, 0, 3
    while at < len(data):
        (length,), kind = struct.unpack(">I", data[at : at + 4]), data[at + 4 : at + 8]
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8
            channels = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            packed += body
        at += 12 + length
    raw, size, lines = zlib.decompress(packed), width * channels, list[bytes]()
    before = bytearray(size)
    for row in range(height):
        start = row * (size + 1)
        before = _unfilter(raw[start], bytearray(raw[start + 1 : start + 1 + size]), before, channels)
        lines.append(bytes(before) if channels == 3 else bytes(b for n, b in enumerate(before) if n % 4 != 3))
    return Pixels(width, height, lines)


def _unfilter(kind: int, line: bytearray, before: bytearray, step: int) -> bytearray:
    for n in range(len(line)):
        left = line[n - step] if n >= step else 0
        corner = before[n - step] if n >= step else 0
        line[n] = (line[n] + _prediction(kind, left, before[n], corner)) & 255
    return line


def _prediction(kind: int, left: int, above: int, corner: int) -> int:
    if kind < 4:
        return (0, left, above, (left + above) // 2)[kind]
    guess = left + above - corner
    return min((left, above, corner), key=lambda one: abs(guess - one))


def middle_of_frame(pixels: Pixels, number: int) -> tuple[float, float]:
    """Returns the middle of what is painted in the colour of a number, whose label stands at a corner of the frame."""
    colour = bytes.fromhex(COLOURS[number % len(COLOURS)][1:])
    rows = [(y, xs) for y, line in enumerate(pixels.lines) if (xs := _columns(line, colour))]
    longest = max(len(xs) for _, xs in rows)
    edges = [(y, xs) for y, xs in rows if len(xs) == longest]  # the upper and the lower side of the frame
    return (edges[0][1][0] + edges[0][1][-1]) / 2, (edges[0][0] + edges[-1][0]) / 2


def _columns(line: bytes, colour: bytes) -> list[int]:
    return [n // 3 for n in range(0, len(line), 3) if line[n : n + 3] == colour]


def last_picture(request: ModelRequest) -> bytes:
    """Returns the newest picture of a request."""
    parts = [
        part for message in request.messages if isinstance(message["content"], list) for part in message["content"]
    ]
    url: str = [part for part in parts if part["type"] == "image_url"][-1]["image_url"]["url"]
    return base64.b64decode(url.partition(",")[2])


def marked_numbers(request: ModelRequest) -> list[int]:
    """Returns the numbers that the newest picture's text lists."""
    said = next(message for message in reversed(request.messages) if isinstance(message["content"], list))
    return [int(number) for number in said["content"][0]["text"].rpartition("beside them: ")[2].rstrip(".").split(", ")]


def answer(request: ModelRequest) -> Any:
    """Takes a screenshot, reads the page, clicks where the picture shows the wanted element, and finishes."""
    turn = sum(message["role"] == "assistant" for message in request.messages)
    has_computer = any(tool["function"]["name"] == "computer" for tool in request.tools)
    if turn == 0 and has_computer:
        return _call("computer", {"action": "screenshot"})
    if turn < 2:
        return _call(("screenshot", "read_page")[turn], {})
    if turn > 2:
        return _call("finish", {"message": "clicked"})
    tree = [message["content"] for message in request.messages if message["role"] == "tool"][-1]
    marked = marked_numbers(request)
    number = max(int(found) for found in WANTED.findall(tree) if int(found) in marked)
    x, y = middle_of_frame(decode_png(last_picture(request)), number)
    if has_computer:
        return _call("computer", {"action": "left_click", "coordinate": [x, y]}, f"number {number}")
    return _call("mouse_click", {"x": x, "y": y}, f"number {number}")


def _call(name: str, arguments: dict[str, Any], said: str | None = None) -> dict[str, Any]:
    return {"content": said, "tool_calls": [{"name": name, "arguments": arguments}]}
