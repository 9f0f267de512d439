"""Folders as content-addressed data: a listing that is a blob, and the bytes of each file as blobs.

A listing is a JSON array of `TreeFile`, sorted by path. Evidence that names one under `data["listing"]` references all
its blobs: `gc` and `audit` follow it. Blocking: run in a thread.

Covered: a listing is untrusted input: nothing is written outside of the target, or through a link;
nothing of the host is read through a link. Not covered: owners, times, extended attributes; devices and pipes.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.errors import StoreError
from assay.records import Evidence, canonical_bytes

from .blobs import BlobStore

LISTING = "listing"
"""The key in an evidence's data under which a listing is named."""
MOST_FILES = 200_000
AT_ONCE = 8 << 20


class TreeFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file (`digest`), a link (`target`), or, with neither, a folder. The path is relative; empty for a single
    file."""

    path: str
    mode: int = 0o644
    digest: str | None = None
    target: str | None = None


_DECODER = msgspec.json.Decoder(tuple[TreeFile, ...])


class StoredTree(NamedTuple):
    listing: str
    """Content address of the listing."""
    files: int
    bytes: int


class TreeTooLarge(ValueError):
    """The tree exceeds the allowed size."""


def store_tree(
    blobs: BlobStore,
    root: Path,
    paths: Iterable[str] | None = None,
    *,
    most_bytes: int,
    inspect: Callable[[bytes], None] = lambda _: None,
) -> StoredTree:
    """Stores a file, or a folder or the named relative paths of it.

    `inspect` gets the bytes of each file (of a large one in pieces) and raises where they must not be stored.

    Raises:
        TreeTooLarge: It is larger than `most_bytes`, or has too many files; some blobs may have been written.
        OSError: It cannot be read.
        StoreError: A blob cannot be written.
    """
    entries: list[TreeFile] = []
    size = 0
    for path in sorted(set(_walk_paths(root) if paths is None else paths)):
        found = _stat_entry(root, path)
        if found is None:
            continue
        entry, length = found
        size += length
        if size > most_bytes or len(entries) >= MOST_FILES:
            raise TreeTooLarge(f"it holds more than {most_bytes >> 20} MiB or {MOST_FILES} files")
        if stat.S_ISREG(entry.mode):
            digest = _keep_file(blobs, root / path if path else root, inspect)
            entries.append(TreeFile(path, stat.S_IMODE(entry.mode), digest))
        else:
            entries.append(msgspec.structs.replace(entry, mode=stat.S_IMODE(entry.mode)))
    return StoredTree(blobs.put(canonical_bytes(entries)), sum(e.digest is not None for e in entries), size)


def _walk_paths(root: Path) -> Iterator[str]:
    if not root.is_dir():
        yield ""
        return
    for folder, folders, names in os.walk(root):
        here = Path(folder).relative_to(root).as_posix()
        yield from (posixpath.normpath(f"{here}/{name}") for name in (*folders, *names))


def _stat_entry(root: Path, path: str) -> tuple[TreeFile, int] | None:
    """Returns an entry with its full mode, and a file's size; None for other kinds of files."""
    place = root / path if path else root.resolve()
    status = place.lstat()
    if stat.S_ISLNK(status.st_mode):
        return TreeFile(path, status.st_mode, target=str(place.readlink())), 0
    if stat.S_ISREG(status.st_mode):
        return TreeFile(path, status.st_mode), status.st_size
    return (TreeFile(path, status.st_mode), 0) if stat.S_ISDIR(status.st_mode) else None


def _keep_file(blobs: BlobStore, path: Path, inspect: Callable[[bytes], None]) -> str:
    handle = os.open(path.resolve() if path.is_symlink() else path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        data = file.read(AT_ONCE)
        inspect(data)
        if len(data) < AT_ONCE:
            return blobs.put(data)

        def pieces() -> Iterator[bytes]:
            yield data
            before = data[-4096:]
            while piece := file.read(1 << 20):
                inspect(before + piece)
                before = piece[-4096:]
                yield piece

        return blobs.put_stream(pieces())


def read_tree(blobs: BlobStore, listing: str) -> tuple[TreeFile, ...]:
    """Returns the entries of a listing. Raises `StoreError` where it is missing, changed, or invalid."""
    try:
        entries = _DECODER.decode(blobs.get(listing))
        _require_sound(entries)
    except (msgspec.DecodeError, ValueError) as exc:
        raise StoreError(f"{listing} is not a listing of a folder: {exc}") from exc
    return entries


def _require_sound(entries: tuple[TreeFile, ...]) -> None:
    """Raises `ValueError` for paths that leave the folder, meet, or pass a link."""
    folders = {e.path for e in entries if e.digest is None and e.target is None}
    seen: set[str] = set()
    for entry in entries:
        path = entry.path
        whole = path == "" and len(entries) == 1
        plain = path == posixpath.normpath(path) and not path.startswith(("/", "../")) and path not in (".", "..")
        if path in seen or "\0" in path or not (whole or plain):
            raise ValueError(f"the path {path[:200]!r} is invalid or occurs twice")
        parent = posixpath.dirname(path)
        if parent and parent not in folders:
            raise ValueError(f"{path[:200]!r} is not in a folder of the listing")
        if entry.target is not None and not _stays_inside(path, entry.target):
            raise ValueError(f"{path[:200]!r} is a link to outside")
        seen.add(path)


def _stays_inside(path: str, target: str) -> bool:
    place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return bool(path) and not target.startswith("/") and "\0" not in target and place.partition("/")[0] != ".."


def write_tree(blobs: BlobStore, listing: str, target: Path) -> None:
    """Writes a stored tree at `target`, which must not exist yet.

    Raises:
        StoreError: The listing or a file is missing or was changed.
        OSError: It cannot be written.
    """
    entries = read_tree(blobs, listing)
    if not (len(entries) == 1 and entries[0].path == ""):
        target.mkdir(parents=True)
    modes = []
    for entry in entries:  # a folder stands before what is in it
        path = target / entry.path if entry.path else target
        if entry.digest is not None:
            with path.open("xb") as file:
                file.write(blobs.get(entry.digest))
            path.chmod(entry.mode & 0o777)
        elif entry.target is None:
            path.mkdir()
            modes.append((path, entry.mode))
    for entry in entries:
        if entry.target is not None:
            (target / entry.path).symlink_to(entry.target)
    for path, mode in reversed(modes):
        path.chmod(mode & 0o777)


def listed_addresses(blobs: BlobStore, evidence: Evidence) -> tuple[str, ...]:
    """Returns the addresses in an evidence's listing; empty where it has none or the listing is missing."""
    listing = evidence.data.get(LISTING)
    if not isinstance(listing, str) or listing not in evidence.blobs:
        return ()
    try:
        return parse_addresses(blobs.get(listing))
    except StoreError:
        return ()


def parse_addresses(listing: bytes) -> tuple[str, ...]:
    """Returns the addresses in a listing's bytes, also of an invalid listing."""
    try:
        found: Any = msgspec.json.decode(listing)
    except (msgspec.DecodeError, RecursionError):
        return ()
    if not isinstance(found, list):
        return ()
    named = (one.get("digest") for one in found if isinstance(one, dict))
    return tuple(dict.fromkeys(digest for digest in named if isinstance(digest, str)))
