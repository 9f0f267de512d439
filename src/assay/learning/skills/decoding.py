"""Decodes what files hide from a scan: texts in other encodings, and in archives, in each other up to three deep.

Decoded are UTF-16, escapes of Python, HTML and URLs, runs of base64 and hexadecimal digits, gzip, zlib, bzip2, xz and
zip. Nothing is executed, and all sizes are bounded. Not covered: other encodings, ciphers, pictures of text, and what
comes after 64 MiB of decoded data.
"""

from __future__ import annotations

import base64
import binascii
import bz2
import html
import io
import lzma
import re
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable, Iterator

_DEPTH, _MOST, _MOST_DECODED = 3, 16 << 20, 64 << 20
_MEMBERS = 500
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3}))")
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/_-]{4,}[ \t\r\n]*){3,}={0,2}")
_HEX = re.compile(rb"(?:(?:0x|\\x)?[0-9a-fA-F]{2}[ \t\r\n,:]*){8,}")
_SPACE = re.compile(rb"[ \t\r\n,:]|0x|\\x")
_LEAST_SHARE = 0.9
"""Share of printable characters at which decoded bytes are text."""


def hidden_texts(data: bytes) -> list[str]:
    """Returns the texts that are encoded in a file, without the file's own; reading ends at 64 MiB of decoded data."""
    found, left = list[str](), _MOST_DECODED
    for layer in _layers(data, _DEPTH):
        text = _as_text(layer)
        if text is not None:
            found.append(text)
        left -= len(layer)
        if left < 0:
            break
    return found


def _layers(data: bytes, depth: int) -> Iterator[bytes]:
    if not depth:
        return
    for inner in _decodings(data):
        if inner and inner != data:
            yield inner
            yield from _layers(inner, depth - 1)


def _decodings(data: bytes) -> Iterator[bytes]:
    if b"\0" in data:
        for codec in ("utf-16-le", "utf-16-be"):
            yield data.decode(codec, errors="ignore").encode(errors="ignore")
    for unpack in (_unzip, _inflate(zlib.decompressobj, 47), _inflate(bz2.BZ2Decompressor), _unxz):
        yield unpack(data)
    text = data.decode(errors="replace")
    yield _unescape(text).encode(errors="ignore")
    for run in _HEX.findall(data):
        digits = _SPACE.sub(b"", run)
        yield binascii.unhexlify(digits[: len(digits) // 2 * 2])
    for run in _BASE64.findall(data):
        digits = re.sub(rb"\s|=", b"", run).replace(b"-", b"+").replace(b"_", b"/")
        for start in range(4):  # letters before it may touch the run
            whole = digits[start : start + (len(digits) - start) // 4 * 4]
            rest = digits[start + len(whole) :]
            padded = whole + (rest + b"=" * (4 - len(rest)) if len(rest) > 1 else b"")
            decoded = base64.b64decode(padded)
            if _as_text(decoded) is not None or _is_packed(decoded):
                yield decoded


def _unescape(text: str) -> str:
    plain = _ESCAPE.sub(_character, text)
    return html.unescape(urllib.parse.unquote(plain))


def _character(match: re.Match[str]) -> str:
    digits = next(group for group in match.groups() if group is not None)
    code = int(digits, 8 if match[4] is not None else 16)
    return chr(code) if code < 0x110000 else ""


def _inflate(make: Callable[..., object], *arguments: object) -> Callable[[bytes], bytes]:
    def inflate(data: bytes) -> bytes:
        if not _is_packed(data):
            return b""
        try:
            return bytes(make(*arguments).decompress(data, _MOST))  # type: ignore[attr-defined]
        except (OSError, EOFError, ValueError, zlib.error):
            return b""

    return inflate


def _unxz(data: bytes) -> bytes:
    try:
        return lzma.LZMADecompressor(memlimit=1 << 28).decompress(data, _MOST) if _is_packed(data) else b""
    except (lzma.LZMAError, EOFError, MemoryError):
        return b""


def _unzip(data: bytes) -> bytes:
    """Returns the members of an archive one after the other."""
    if not data.startswith(b"PK"):
        return b""
    found, left = list[bytes](), _MOST
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for member in archive.infolist()[:_MEMBERS]:
                with archive.open(member) as file:
                    found.append(member.filename.encode(errors="ignore") + b"\n" + file.read(left))
                left = max(0, left - len(found[-1]))
    except (OSError, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error, EOFError):
        return b"\n".join(found)
    return b"\n".join(found)


def _is_packed(data: bytes) -> bool:
    return data[:2] in (b"PK", b"\x1f\x8b", b"BZ", b"\xfd7") or (data[:1] == b"\x78" and len(data) > 8)


def _as_text(data: bytes) -> str | None:
    text = data.decode(errors="replace")
    shown = sum(one.isprintable() or one.isspace() for one in text[:4096] if one != "\ufffd")
    return text if text and shown >= _LEAST_SHARE * min(len(text), 4096) else None
