"""Forms that a browser sends as `multipart/form-data`: the fields, and the files with their names.

Covered: the numbers of parts and files and the sizes of their heads are bounded; of a name with a path only the whole
is returned, for the action that takes the file to refuse; what a client says of a file's type is not read.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MULTIPART: Final = "multipart/form-data"
MOST_PARTS: Final = 4_000
MOST_UPLOADS: Final = 20
"""Files in one form."""
_MOST_HEAD: Final = 4_096
"""Bytes before the content of a part."""
_BOUNDARY: Final = re.compile(r"""boundary=(?:"([!#-~ ]{1,70})"|([!#-:<-~]{1,70}))""", re.ASCII | re.IGNORECASE)
_DISPOSITION: Final = re.compile(r"content-disposition:\s*form-data\s*;(.*)", re.IGNORECASE)
_PARAMETER: Final = re.compile(r'([a-z]{1,20})="((?:[^"\\\r\n]|\\.)*)"', re.IGNORECASE)
_ESCAPED: Final = {"%22": '"', "%0D": "\r", "%0A": "\n"}
"""Characters that browsers write so in names (HTML, 4.10.21.8)."""


class Upload(NamedTuple):
    """A file that a form holds."""

    field: str
    name: str
    content: bytes


class MultipartForm(NamedTuple):
    """A form."""

    pairs: tuple[tuple[str, str], ...]
    """Names and texts of the controls without a file."""
    uploads: tuple[Upload, ...]
    """Files; a control in which none was chosen has none."""


def read_multipart(content_type: str, body: bytes) -> MultipartForm:
    """Reads a form. Raises `ValueError` for one that no browser sends, and for too many parts."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise ValueError("A form of several parts names its boundary.")
    mark = b"--" + (found[1] or found[2]).encode()
    start, end = b"\r\n" + body, b"\r\n" + mark
    first, *parts = start.split(end, MOST_PARTS + 1)
    if first not in (b"", b"\r\n") or len(parts) > MOST_PARTS or not parts or not parts[-1].startswith(b"--"):
        raise ValueError(f"A form has at most {MOST_PARTS} parts, of which the last one is its end.")
    pairs: list[tuple[str, str]] = []
    uploads: list[Upload] = []
    for part in parts[:-1]:
        name, file, content = _read_part(part)
        if file is None:
            pairs.append((name, content.decode("utf-8", "replace")))
        elif file or content:
            uploads.append(Upload(name, file, content))
    if len(uploads) > MOST_UPLOADS:
        raise ValueError(f"A form has at most {MOST_UPLOADS} files.")
    return MultipartForm(tuple(pairs), tuple(uploads))


def _read_part(part: bytes) -> tuple[str, str | None, bytes]:
    """Returns the name of a control, the name of its file (None without a file), and the content."""
    head, mark, content = part.partition(b"\r\n\r\n")
    if not mark or not head.startswith(b"\r\n") or len(head) > _MOST_HEAD:
        raise ValueError("A part of the form has no head.")
    lines = head.decode("utf-8", "replace").split("\r\n")
    parameters = next((found[1] for line in lines if (found := _DISPOSITION.fullmatch(line))), "")
    given = {name.lower(): _unescape(value) for name, value in _PARAMETER.findall(parameters)}
    if "name" not in given:
        raise ValueError("A part of the form has no name.")
    return given["name"], given.get("filename"), content


def _unescape(value: str) -> str:
    for written, letter in _ESCAPED.items():
        value = value.replace(written, letter)
    return value
