"""Pictures in a record: PNG, JPEG, GIF and WebP, identified by their first bytes.

No SVG, which can hold scripts. Pictures with too many pixels for a browser are not shown.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from assay.errors import UserError
from assay.records import digest_bytes
from assay.store import BlobStore

MOST_BYTES: Final = 12 << 20
MOST_PIXELS: Final = 50_000_000
_MAGIC = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def _picture_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)


def is_picture(data: bytes) -> bool:
    """Returns whether bytes begin like a supported picture."""
    return _picture_type(data) is not None


def encode_picture(data: bytes) -> dict[str, Any]:
    """Encodes a picture for a page: `type`, `data` (base64), `width` and `height` in pixels.

    Raises:
        UserError: It is unsupported, too large or damaged.
    """
    kind = _picture_type(data)
    if kind is None:
        raise UserError("not a PNG, JPEG, GIF or WebP picture")
    size = _SIZES[kind](data)
    if len(data) > MOST_BYTES or size is None or size[0] * size[1] > MOST_PIXELS:
        raise UserError(f"the picture is too large to be shown, or damaged ({len(data)} bytes, {size or 'no size'})")
    return {"type": kind, "data": base64.b64encode(data).decode(), "width": size[0], "height": size[1]}


def picture_of_blob(blobs: BlobStore, digest: str) -> dict[str, Any]:
    """Returns a picture in the blob store.

    Raises:
        UserError: It is unsupported, too large, damaged, or was changed after it was stored.
        StoreError: The blob is missing.
    """
    data = blobs.get(digest, limit=MOST_BYTES + 1)
    if len(data) <= MOST_BYTES and digest_bytes(data) != digest:
        raise UserError("the picture was changed after it was stored: its bytes do not have its digest")
    return encode_picture(data)


def picture_of_text(text: object) -> dict[str, Any]:
    """Returns a picture in a `data:` address. Raises `UserError` where it is invalid."""
    head, _, payload = text.partition(",") if isinstance(text, str) else ("", "", "")
    if not head.startswith("data:image/") or not head.endswith(";base64") or len(payload) > 2 * MOST_BYTES:
        raise UserError("this text holds no picture")
    try:
        return encode_picture(base64.b64decode("".join(payload.split()), validate=True))
    except (binascii.Error, ValueError) as exc:
        raise UserError(f"this text holds no picture: {exc}") from exc


def _png(data: bytes) -> tuple[int, int] | None:
    return _pair(data[16:24]) if len(data) >= 24 else None


def _pair(data: bytes) -> tuple[int, int]:
    half = len(data) // 2
    return int.from_bytes(data[:half], "big"), int.from_bytes(data[half:], "big")


def _gif(data: bytes) -> tuple[int, int] | None:
    return (int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")) if len(data) >= 10 else None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """Reads height and width from the first frame header (SOF)."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = _pair(data[at + 5 : at + 9])
            return width, height
        at += 2 + max(length, 1)
    return None


def _webp(data: bytes) -> tuple[int, int] | None:
    form = data[12:16]
    if form == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if form == b"VP8L" and len(data) >= 25:
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 " and len(data) >= 30:
        sides = [int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (26, 28)]
        return sides[0], sides[1]
    return None


_SIZES = {"image/png": _png, "image/gif": _gif, "image/jpeg": _jpeg, "image/webp": _webp}
