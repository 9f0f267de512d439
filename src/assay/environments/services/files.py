"""Files of a world: those that a person gives to the agent, and those that the agent sends.

An action takes a file by its name (`FileName`), through every transport. A page shows such an argument as a file field,
and first stores what a browser sends under its name, by the action `put_file` that tools have, too. So one plan of
calls ends in one state wherever it is made. Contents are stored once, by digest, and rows refer to the digest.

A world has this service where an action of its services takes a file.

Covered: names cannot be paths and have no characters that end lines or change the direction of text; sizes and numbers
are bounded; the type of a file is read from its content, never from what a client says of it.

Not covered: contents are not searched for malware. Pages show them inert (`pages.site`).
"""

from __future__ import annotations

import base64
import binascii
import random
import sqlite3
import struct
import unicodedata
import zlib
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple, Protocol, runtime_checkable

import msgspec
from blake3 import blake3
from msgspec import Meta

from .declaration import Service
from .schema import IDENTIFIER, PREFIX, UNIT, Table
from .transaction import Generator, Transaction

FILE: Final = "file"
"""Kind of identifier of a file, and unit of its digest."""
MOST_FILE: Final = 128 << 10
"""Bytes of one file."""
MOST_SENT: Final = 1 << 20
"""Bytes of all contents of a world, beyond which no file can be sent."""
MOST_FILES: Final = 64
LONGEST_NAME: Final = 100
_MOST_READ: Final = 20_000
"""Characters of a text file that are shown."""
_FORBIDDEN: Final = frozenset('/\\<>:"|?*')
_MAGIC: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
}
_BY_ENDING: Final = {
    "csv": "text/csv",
    "htm": "text/html",
    "html": "text/html",
    "json": "application/json",
    "svg": "image/svg+xml",
    "xhtml": "application/xhtml+xml",
    "xml": "application/xml",
}
"""Types of texts by the ending of the name."""
PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
UNKNOWN: Final = "application/octet-stream"

FileName = Annotated[
    str,
    Meta(
        description="Name of a file of `list_files`",
        max_length=LONGEST_NAME,
        extra={IDENTIFIER: FILE, PREFIX: "", UNIT: FILE},
    ),
]
FileDigest = Annotated[str, Meta(description="Digest of the content", extra={UNIT: FILE})]


class InputFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A file that the person gives: a text, or bytes in base64."""

    name: str
    text: str | None = None
    base64: str | None = None


class FilesKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the files that the person gives."""

    files: tuple[InputFile, ...] = ()
    given: Annotated[int, Meta(ge=0, le=24)] = 6
    """Number of files that are drawn where `files` is empty."""


files = Service("files", "Files of the person whom you serve, and files that you send.", knobs=FilesKnobs)


@files.table(judged=False)
class File(msgspec.Struct, frozen=True):
    """A file by its name."""

    name: FileName
    digest: FileDigest
    size: int
    """Bytes."""
    media_type: str
    is_given: bool = False
    """True for a file of the person, which cannot be replaced."""


@files.table("contents", judged=False)
class FileContent(msgspec.Struct, frozen=True):
    digest: str
    base64: str


@files.describe(File, noun="file")
def describe_file(_tx: Transaction, file: File) -> str:
    return f"“{file.name}”"


@files.view()
def list_files(tx: Transaction) -> list[File]:
    """Lists the files that you have: those of the person, and those that you sent."""
    return tx.find(File)


@files.view()
def read_file(tx: Transaction, name: FileName) -> str:
    """Returns the text of a file, at most 20,000 characters of it."""
    return text_of(tx, find_file(tx, name))


@files.action()
def put_file(
    tx: Transaction,
    name: Annotated[str, Meta(max_length=LONGEST_NAME, description="Name without a folder, such as notes.txt")],
    text: Annotated[str | None, Meta(description="Content of a text file")] = None,
    base64: Annotated[str | None, Meta(description="Content of any file, in base64")] = None,
) -> File:
    """Sends a file, so that other actions can take it by its name. It replaces an earlier one that you sent.

    Args:
        name: Its name, without a folder.
        text: Its content, if it is a text.
        base64: Its content in base64, if it is not.
    """
    tx.require((text is None) is not (base64 is None), "Give the content as `text` or as `base64`.")
    content = _decode(tx, base64) if text is None else text.encode()
    former = tx.get_or_none(File, name)
    if former is not None and former.is_given:
        tx.refuse(f"{name!r} is a file of the person; give yours another name.", "conflict")
    tx.require(former is not None or tx.count(File) < MOST_FILES, f"There are {MOST_FILES} files already.", "conflict")
    stored = sum(len(one.base64) * 3 // 4 for one in tx.find(FileContent))  # replaced ones, too: rows may refer to them
    tx.require(stored + len(content) <= MOST_SENT, f"All files together have at most {MOST_SENT >> 10} KiB.")
    file = store_content(tx, name, content)
    if former is None:
        return tx.insert(file)
    return tx.update(former, digest=file.digest, size=file.size, media_type=file.media_type)


def _decode(tx: Transaction, text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError) as exc:
        tx.refuse(f"The content is not base64: {exc}.")


def find_file(tx: Transaction, name: str) -> File:
    """Returns a file. Refuses a name that is not there, with those that are."""
    file = tx.get_or_none(File, name)
    if file is None:
        known = ", ".join(other.name for other in tx.find(File, limit=MOST_FILES)) or "none"
        tx.refuse(f"There is no file {name[:LONGEST_NAME]!r}; there are: {known}.", "not_found")
    return file


def store_content(tx: Transaction, name: str, content: bytes) -> File:
    """Stores a content and returns its file, which is not inserted. Refuses wrong names, sizes and types."""
    if problem := name_problem(name) or content_problem(name, content):
        tx.refuse(problem)
    digest = blake3(content).hexdigest()
    if tx.get_or_none(FileContent, digest) is None:
        tx.insert(FileContent(digest, base64.b64encode(content).decode()))
    return File(name, digest, len(content), media_type(name, content))


def text_of(tx: Transaction, file: File) -> str:
    """Returns the text of a file. Refuses one that is no text."""
    content = base64.b64decode(tx.get(FileContent, file.digest).base64)
    text = _as_text(content)
    if text is None:
        tx.refuse(f"{file.name!r} is not text: it has the type {file.media_type} and {file.size} bytes.")
    return text[:_MOST_READ]


def name_problem(name: str) -> str:
    """Returns what is wrong with the name of a file; empty if nothing is."""
    if not name.strip() or name.strip() != name or len(name) > LONGEST_NAME:
        return f"The name of a file has 1 to {LONGEST_NAME} characters, without spaces at its ends."
    if name.startswith(".") or any(letter in _FORBIDDEN for letter in name):
        return f"{name!r} is not the name of a file: it is without a folder, and does not begin with a dot."
    if any(unicodedata.category(letter)[0] == "C" for letter in name):
        return "The name of a file holds no control or formatting characters."
    return ""


def content_problem(name: str, content: bytes) -> str:
    """Returns what is wrong with the content of a file; empty if nothing is."""
    if len(content) > MOST_FILE:
        return f"A file has at most {MOST_FILE >> 10} KiB; this one has {len(content)} bytes."
    ending = name.rpartition(".")[2].lower()
    expected = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "pdf": _PDF}
    if (kind := expected.get(ending)) and media_type(name, content) != kind:
        return f"{name!r} has not the content of a file of type {kind}."
    return ""


_PDF: Final = "application/pdf"


def media_type(name: str, content: bytes) -> str:
    """Returns the type of a file: by its first bytes, of a text by the ending of its name."""
    for start, kind in _MAGIC.items():
        if content.startswith(start):
            return kind
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    if _as_text(content) is None:
        return UNKNOWN
    return _BY_ENDING.get(name.rpartition(".")[2].lower(), "text/plain")


def _as_text(content: bytes) -> str | None:
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


# The files of a world from outside of its actions.


@runtime_checkable
class HoldsTables(Protocol):
    """A world whose rows can be read."""

    @property
    def tables(self) -> Mapping[type[msgspec.Struct], Table]:
        """Returns the tables by row class."""
        ...

    @property
    def database(self) -> Any:
        """Returns the object with the `connection` to the state."""
        ...


class StoredFile(NamedTuple):
    """A file with its content."""

    name: str
    media_type: str
    content: bytes

    @property
    def is_text(self) -> bool:
        """Returns whether the content is a text in UTF-8."""
        return _as_text(self.content) is not None


class FileStore:
    """Reads the files of a world; without the service `files` it has none."""

    def __init__(self, tools: object) -> None:
        self._world = tools if isinstance(tools, HoldsTables) and File in tools.tables else None

    @property
    def is_there(self) -> bool:
        """Returns whether the world has the service `files`."""
        return self._world is not None

    @property
    def names(self) -> list[str]:
        """Names of all files, sorted."""
        return [str(row[0]) for row in self._select("SELECT name FROM files_files ORDER BY name")]

    def named(self, name: str) -> StoredFile | None:
        """Returns a file by its name."""
        return self._first(name, "SELECT name, digest FROM files_files WHERE name = ?", name)

    def content_of(self, digest: str) -> StoredFile | None:
        """Returns the content with a digest; its type is that of the content alone."""
        return self._first("", "SELECT '', digest FROM files_contents WHERE digest = ?", digest)

    def _first(self, name: str, query: str, value: str) -> StoredFile | None:
        found = next(iter(self._select(query, value)), None)
        if found is None:
            return None
        (encoded,) = self._select("SELECT base64 FROM files_contents WHERE digest = ?", found[1])[0]
        content = base64.b64decode(encoded)
        return StoredFile(name, media_type(name, content), content)

    def _select(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        if self._world is None:
            return []
        connection: sqlite3.Connection = self._world.database.connection
        return connection.execute(query, values).fetchall()


# Generated files.

_TOPICS: Final = (
    "checkout", "login", "invoice", "import", "search", "export", "backup", "upload", "calendar", "report", "billing",
    "migration", "release", "survey", "inventory", "contract", "timetable", "budget",
)  # fmt: skip
_ENDINGS: Final = ("log", "csv", "txt", "png", "html", "svg")
_EVENTS: Final = ("started", "finished", "was slow", "failed", "was repeated", "was skipped")


@files.generator
def give_files(g: Generator, knobs: FilesKnobs) -> None:
    """Stores the files that the person gives."""
    for given in knobs.files:
        if (given.text is None) is (given.base64 is None):
            raise ValueError(f"The file {given.name!r}: give its content as `text` or as `base64`")
        content = base64.b64decode(given.base64, validate=True) if given.text is None and given.base64 else b""
        _give(g, given.name, content if given.text is None else given.text.encode())
    if not knobs.files:
        for topic, ending in _draw_names(g.draw, knobs.given):
            _give(g, f"{topic}-{g.draw.randint(1, 28):02}.{ending}", draw_content(g.draw, topic, ending))


def _draw_names(draw: random.Random, count: int) -> list[tuple[str, str]]:
    return draw.sample([(topic, ending) for topic in _TOPICS for ending in _ENDINGS], count)


def _give(g: Generator, name: str, content: bytes) -> None:
    if problem := name_problem(name) or content_problem(name, content):
        raise ValueError(f"The file {name!r} cannot be given: {problem}")
    g.insert(msgspec.structs.replace(store_content(g, name, content), is_given=True))


def draw_content(draw: random.Random, topic: str, ending: str) -> bytes:
    """Returns the content of a generated file, which depends on the draw alone."""
    if ending == "png":
        return _draw_picture(draw)
    lines = [f"{topic} {draw.choice(_EVENTS)} after {draw.randint(2, 900)} ms" for _ in range(draw.randint(3, 9))]
    if ending == "csv":
        return "".join(["number,event\n", *(f"{at},{line}\n" for at, line in enumerate(lines, 1))]).encode()
    if ending == "html":
        # An exported page has a script as real ones do: whatever shows it must not run it.
        items = "".join(f"<li>{line}</li>" for line in lines)
        return f"<!doctype html><title>{topic}</title><ul>{items}</ul><script>document.title='run'</script>\n".encode()
    if ending == "svg":
        size = draw.randint(8, 64)
        shape = f'<rect width="{size}" height="{size}"/><script>document.title="run"</script>'
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="80" height="80">{shape}</svg>\n'.encode()
    return "".join(f"{line}\n" for line in lines).encode()


def _draw_picture(draw: random.Random) -> bytes:
    """Returns a PNG picture of one colour and random size, stored without compression: equal with every zlib."""
    width, height = draw.randint(8, 24), draw.randint(8, 24)
    row = b"\0" + bytes((draw.randrange(256), draw.randrange(256), draw.randrange(256))) * width
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(row * height, 0)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
