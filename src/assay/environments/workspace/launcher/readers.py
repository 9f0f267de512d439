"""The short list of programs that read a file as data: nothing in it makes them do anything but print or compare.

A program counts only where it is a file of its own, which was there before the first command: a program of many names
(busybox) is a shell as well. Only what the command itself names is read as data; a library that is loaded into such a
program is not. Programs are digested where they are used: what the first of an agent's bytes is loaded by was written
by nobody but the image's and the script's author.
"""

from __future__ import annotations

import os
from _blake2 import blake2b

FOLDERS = ("/usr/bin", "/bin")
NAMES = ("cat", "cmp", "diff", "grep", "head", "tail", "wc", "sha256sum", "md5sum")
MOST_DIGESTED = 512 << 10
"""Bytes of a program; a larger one is an interpreter or so, and costs more to digest than it tells."""


class Readers:
    """The programs of the list that this sandbox has."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], str] = {}
        self._digests: dict[tuple[int, int], str] = {}
        self._used: set[tuple[int, int]] = set()
        for name in NAMES:
            for folder in FOLDERS:
                path = f"{folder}/{name}"
                if os.path.basename(os.path.realpath(path)) == name:
                    self._add(name, path)

    def _add(self, name: str, path: str) -> None:
        try:
            status = os.stat(path)
        except OSError:
            return
        self._names[status.st_dev, status.st_ino] = name

    def refuse(self, files: set[tuple[int, int]]) -> None:
        """Takes programs off the list that are among `files`."""
        for mark in self._names.keys() & files:
            del self._names[mark]

    def digests(self) -> dict[str, str]:
        """Returns the digest of each program that read something, by its name."""
        return {self._names[mark]: self._digests[mark] for mark in self._used if self._digests.get(mark)}

    def digest(self, pid: int, mark: tuple[int, int]) -> str:
        """Returns the digest of the program that a process executes; empty where it is large or cannot be read."""
        if mark not in self._digests:
            try:
                self._digests[mark] = digest_file(f"/proc/{pid}/exe")
            except OSError:
                return ""
        return self._digests[mark]

    def reads_as_data(self, mark: tuple[int, int], words: list[bytes], path: bytes) -> bool:
        """Returns whether a program of the list opens a file that its own command line names."""
        name = self._names.get(mark)
        if name is None or (name == "grep" and not _takes_fixed_text(words)):
            return False
        named = any(path == word or path.startswith(word.rstrip(b"/") + b"/") for word in words[1:] if word)
        if named:
            self._used.add(mark)
        return named


def _takes_fixed_text(words: list[bytes]) -> bool:
    options = [word for word in words[1:] if word.startswith(b"-")]
    return any(word == b"--fixed-strings" or (word[1:2] != b"-" and b"F" in word) for word in options)


def digest_file(path: str) -> str:
    """Returns the digest of a file's bytes; empty for more than `MOST_DIGESTED`. Raises `OSError`."""
    with open(path, "rb", buffering=0) as handle:
        if os.fstat(handle.fileno()).st_size > MOST_DIGESTED:
            return ""
        data = handle.read(MOST_DIGESTED + 1)
    return "blake2b:" + blake2b(data, digest_size=32).hexdigest()
