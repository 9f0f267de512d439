"""Reads the kind, mode, size and content address of one path of a tree, without ever following a link.

Used by `state` over agent-controlled trees, so: names may be any bytes, folders may be deeper than a path can
express, files may change or vanish during reading, and pipes and devices are never opened.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from assay.environments.workspace.launcher.syscalls import RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, openat2
from assay.errors import StateLimitError
from assay.records import DIGEST_PREFIX, digest_bytes

Opener = Callable[[str], int]
"""Opens a path below one tree for reading if the caller's own permissions do not suffice."""
RACY_NS = 50_000_000
MOST_HOLES = 1 << 30
MOST_CACHED = 500_000
_CHUNK = 1 << 20
_ESCAPE = "\ufffd"


class PathEntry(NamedTuple):
    """Attributes of a path that are part of the state; times and owners are not."""

    type: Literal["file", "directory", "symlink", "other"]
    mode: int | None = None
    size: int | None = None
    digest: str | None = None


def encode_name(name: str) -> str:
    """Encodes a file name as valid UTF-8 text: each invalid byte becomes U+FFFD and two hexadecimal digits."""
    if name.isascii():
        return name
    escaped = name.replace(_ESCAPE, "".join(f"{_ESCAPE}{byte:02x}" for byte in _ESCAPE.encode()))
    return re.sub("[\udc80-\udcff]", lambda match: f"{_ESCAPE}{ord(match[0]) - 0xDC00:02x}", escaped)


def decode_name(text: str) -> str:
    """Decodes a name from `encode_name` for the file system functions."""
    if _ESCAPE not in text:
        return text
    encoded = re.sub(
        rb"\xef\xbf\xbd([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), text.encode("utf-8", "surrogateescape")
    )
    return os.fsdecode(encoded)


def is_whiteout(status: os.stat_result) -> bool:
    """Returns True if an entry of an overlay layer marks the name as removed."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(folder: int) -> bool:
    """Returns True if a folder of an overlay layer hides its content in lower layers."""
    try:
        return os.getxattr(folder, "user.overlay.opaque") == b"y"
    except OSError:
        return False


def open_below(top: int, path: str, flags: int, fallback: Opener | None = None) -> int:
    """Opens `path` below the open folder `top` without following links."""
    resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS
    if not flags & os.O_PATH:
        flags |= os.O_NONBLOCK | os.O_NOCTTY
    try:
        return openat2(top, path or ".", flags, resolve)
    except PermissionError:
        if fallback is None:
            raise
        return fallback(path or ".")


class HashCache:
    """Content addresses by inode, size and times.

    A file whose times are more recent than the clock's resolution is hashed each time: it may change within one tick
    (the rule that version control systems use). A process can change a mapped file without changing its
    times, so files hashed while processes ran are hashed again when none runs (`settled`). On a tmpfs a process that
    starts later can, too, if it reads a page before it writes to it; so a sealed state is hashed without a cache.
    """

    def __init__(self) -> None:
        self._digests: dict[tuple[int, int], tuple[int, int, int, str, bool]] = {}

    def digest(self, fd: int, *, settled: bool) -> str:
        """Returns the content address of an open regular file."""
        status = os.fstat(fd)
        key = (status.st_dev, status.st_ino)
        stamp = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        cached = self._digests.get(key)
        if cached is not None and cached[:3] == stamp and (cached[4] or not settled):
            return cached[3]
        started = time.time_ns()
        value = _hash(fd)
        if started - max(status.st_ctime_ns, status.st_mtime_ns) > RACY_NS:
            if len(self._digests) >= MOST_CACHED:
                self._digests.clear()
            self._digests[key] = (*stamp, value, settled)
        return value


def _hash(fd: int) -> str:
    from blake3 import blake3  # late: importing this module costs nothing

    hasher = blake3()
    while chunk := os.read(fd, _CHUNK):
        hasher.update(chunk)
    return DIGEST_PREFIX + hasher.hexdigest()


class TreeReader:
    """Options and limits for reading the contents of one tree; `settled` if nothing can change the files now.

    A tree may have 1 GiB of holes (bytes that a file claims but that were never written); a file beyond that limit, in
    name order, counts as `other`: its digest covers the written bytes, so that claiming petabytes costs nothing.
    """

    def __init__(self, cache: HashCache, *, settled: bool = True) -> None:
        self.cache = cache
        self.settled = settled
        self.budget = ScanBudget()
        self._hole_bytes = 0

    def allow_holes(self, size: int) -> bool:
        """Returns True and counts the holes if a file with that many bytes of holes may be read completely."""
        if size and self._hole_bytes + size > MOST_HOLES:
            return False
        self._hole_bytes += size
        return True


def _hole_bytes(status: os.stat_result) -> int:
    """Returns the number of bytes of a file that were never written."""
    return max(0, status.st_size - status.st_blocks * 512)


def _hash_written(fd: int) -> str:
    """Returns a digest of the written bytes of a sparse file and their offsets."""
    from blake3 import blake3  # late: importing this module costs nothing

    hasher, position, end = blake3(), 0, os.fstat(fd).st_size
    hasher.update(b"sparse %d" % end)
    while position < end:
        try:
            start = os.lseek(fd, position, os.SEEK_DATA)
        except OSError:
            break
        position = os.lseek(fd, start, os.SEEK_HOLE)
        os.lseek(fd, start, os.SEEK_SET)
        hasher.update(b"at %d" % start)
        while start < position and (chunk := os.read(fd, min(_CHUNK, position - start))):
            hasher.update(chunk)
            start += len(chunk)
    return DIGEST_PREFIX + hasher.hexdigest()


def describe_entry(
    folder: int, name: str, status: os.stat_result, reader: TreeReader, fallback: Opener | None = None
) -> PathEntry | None:
    """Returns the entry of `name` in an open folder; None if it vanished meanwhile."""
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        return PathEntry("directory", mode)
    if stat.S_ISLNK(status.st_mode):
        target = os.fsencode(os.readlink(name, dir_fd=folder))
        return PathEntry("symlink", None, len(target), digest_bytes(target))
    if not stat.S_ISREG(status.st_mode):
        return PathEntry("other", mode)
    try:
        fd = open_below(folder, name, os.O_RDONLY, fallback)
    except FileNotFoundError:
        return None
    try:
        if not reader.allow_holes(_hole_bytes(status)):
            return PathEntry("other", mode, status.st_size, _hash_written(fd))
        return PathEntry("file", mode, status.st_size, reader.cache.digest(fd, settled=reader.settled))
    finally:
        os.close(fd)


MOST_CHANGES = 300_000
"""Paths that differ from the image."""
MOST_PATH_BYTES = 64 << 20
"""Bytes of their names together."""
MOST_SCAN_CPU_S = 30.0
"""CPU seconds of the thread that lists and hashes; waiting does not count."""


class ScanBudget:
    """Budget of one scan of one tree. Created in the scanning thread."""

    def __init__(self) -> None:
        self._entries = 0
        self._bytes = 0
        self._deadline = time.thread_time() + MOST_SCAN_CPU_S

    def charge(self, path: str) -> None:
        """Counts one path. Raises `StateLimitError` if a bound is passed."""
        self._entries += 1
        self._bytes += len(path)
        if self._entries > MOST_CHANGES:
            raise StateLimitError(f"the state has more than {MOST_CHANGES:,} changed paths")
        if self._bytes > MOST_PATH_BYTES:
            raise StateLimitError(f"the names of the changed paths take more than {MOST_PATH_BYTES >> 20} MiB")
        if time.thread_time() > self._deadline:
            raise StateLimitError(f"listing the changed paths takes more than {MOST_SCAN_CPU_S:g} CPU seconds")
