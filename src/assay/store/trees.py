"""Folders as content-addressed data: a listing that is a blob, and the bytes of each file as blobs.

A listing is a JSON array of `TreeFile`, sorted by path. Evidence that names one under `data["listing"]` keeps all that
the listing names: `gc` and `audit` follow it. Blocking: run in a thread.

Covered: a listing is as untrusted as whoever wrote it: nothing is written outside of the target, or through a link;
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

__all__ = ["LISTING", "KeptTree", "TreeFile", "TreeTooLarge", "keep_tree", "listed", "read_tree", "write_tree"]

LISTING = "listing"
"""The key in an evidence's data under which a listing is named."""
MOST_FILES = 200_000
AT_ONCE = 8 << 20


class TreeFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file (`digest`), a link (`target`), or, with neither, a folder. The path is relative; of a lone file empty."""

    path: str
    mode: int = 0o644
    digest: str | None = None
    target: str | None = None


_DECODER = msgspec.json.Decoder(tuple[TreeFile, ...])


class KeptTree(NamedTuple):
    """What was kept."""

    listing: str
    """Content address of the listing."""
    files: int
    bytes: int


class TreeTooLarge(ValueError):
    """It holds more than was allowed."""


def keep_tree(
    blobs: BlobStore,
    root: Path,
    paths: Iterable[str] | None = None,
    *,
    most_bytes: int,
    look: Callable[[bytes], None] = lambda _: None,
) -> KeptTree:
    """Keeps a file or folder.

    Args:
        blobs: Where.
        root: The file or folder.
        paths: What of it, relative; default: all.
        most_bytes: Of all files.
        look: Is shown the bytes of each file (of a large one piece by piece) and raises where they must not be kept.

    Raises:
        TreeTooLarge: It is larger than `most_bytes`, or has too many files; some blobs may have been written.
        OSError: It cannot be read.
        StoreError: A blob cannot be written.
    """
    entries: list[TreeFile] = []
    size = 0
    for path in sorted(set(_walk(root) if paths is None else paths)):
        found = _entry(root, path)
        if found is None:
            continue
        entry, length = found
        size += length
        if size > most_bytes or len(entries) >= MOST_FILES:
            raise TreeTooLarge(f"it holds more than {most_bytes >> 20} MiB or {MOST_FILES} files")
        if stat.S_ISREG(entry.mode):
            digest = _keep_file(blobs, root / path if path else root, look)
            entries.append(TreeFile(path, stat.S_IMODE(entry.mode), digest))
        else:
            entries.append(msgspec.structs.replace(entry, mode=stat.S_IMODE(entry.mode)))
    return KeptTree(blobs.put(canonical_bytes(entries)), sum(e.digest is not None for e in entries), size)


def _walk(root: Path) -> Iterator[str]:
    if not root.is_dir():
        yield ""
        return
    for folder, folders, names in os.walk(root):
        here = Path(folder).relative_to(root).as_posix()
        yield from (posixpath.normpath(f"{here}/{name}") for name in (*folders, *names))


def _entry(root: Path, path: str) -> tuple[TreeFile, int] | None:
    """An entry with its whole mode, and a file's size; None for what no tree holds."""
    place = root / path if path else root.resolve()
    status = place.lstat()
    if stat.S_ISLNK(status.st_mode):
        return TreeFile(path, status.st_mode, target=str(place.readlink())), 0
    if stat.S_ISREG(status.st_mode):
        return TreeFile(path, status.st_mode), status.st_size
    return (TreeFile(path, status.st_mode), 0) if stat.S_ISDIR(status.st_mode) else None


def _keep_file(blobs: BlobStore, path: Path, look: Callable[[bytes], None]) -> str:
    handle = os.open(path.resolve() if path.is_symlink() else path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        data = file.read(AT_ONCE)
        look(data)
        if len(data) < AT_ONCE:
            return blobs.put(data)

        def pieces() -> Iterator[bytes]:
            yield data
            before = data[-4096:]
            while piece := file.read(1 << 20):
                look(before + piece)
                before = piece[-4096:]
                yield piece

        return blobs.put_stream(pieces())


def read_tree(blobs: BlobStore, listing: str) -> tuple[TreeFile, ...]:
    """The entries of a listing. Raises `StoreError` where it is not here, was changed, or is none."""
    try:
        entries = _DECODER.decode(blobs.get(listing))
        _require_sound(entries)
    except (msgspec.DecodeError, ValueError) as exc:
        raise StoreError(f"{listing} is no listing of a folder: {exc}") from exc
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
            raise ValueError(f"the path {path[:200]!r} is not one below the folder, or stands twice")
        parent = posixpath.dirname(path)
        if parent and parent not in folders:
            raise ValueError(f"{path[:200]!r} lies in no folder of the listing")
        if entry.target is not None and not _stays(path, entry.target):
            raise ValueError(f"{path[:200]!r} is a link that leads outside")
        seen.add(path)


def _stays(path: str, target: str) -> bool:
    place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return bool(path) and not target.startswith("/") and "\0" not in target and place.partition("/")[0] != ".."


def write_tree(blobs: BlobStore, listing: str, target: Path) -> None:
    """Writes what `keep_tree` kept at `target`, where nothing may be yet.

    Raises:
        StoreError: The listing or a file is not here or was changed.
        OSError: It cannot be written.
    """
    entries = read_tree(blobs, listing)
    if not (len(entries) == 1 and entries[0].path == ""):
        target.mkdir(parents=True)
    modes = []
    for entry in entries:  # a folder stands before what is in it
        place = target / entry.path if entry.path else target
        if entry.digest is not None:
            with place.open("xb") as file:
                file.write(blobs.get(entry.digest))
            place.chmod(entry.mode & 0o777)
        elif entry.target is None:
            place.mkdir()
            modes.append((place, entry.mode))
    for entry in entries:
        if entry.target is not None:
            (target / entry.path).symlink_to(entry.target)
    for place, mode in reversed(modes):
        place.chmod(mode & 0o777)


def listed(blobs: BlobStore, evidence: Evidence) -> tuple[str, ...]:
    """The content addresses that an evidence's listing names; none where it has no listing, or that is not here."""
    listing = evidence.data.get(LISTING)
    if not isinstance(listing, str) or listing not in evidence.blobs:
        return ()
    try:
        return addresses_in(blobs.get(listing))
    except StoreError:
        return ()


def addresses_in(listing: bytes) -> tuple[str, ...]:
    """The content addresses that the bytes of a listing name, whatever else is wrong with it."""
    try:
        found: Any = msgspec.json.decode(listing)
    except (msgspec.DecodeError, RecursionError):
        return ()
    if not isinstance(found, list):
        return ()
    named = (one.get("digest") for one in found if isinstance(one, dict))
    return tuple(dict.fromkeys(digest for digest in named if isinstance(digest, str)))
