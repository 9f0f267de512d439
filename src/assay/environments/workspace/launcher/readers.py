"""List of programs that read a file as data: its content cannot make them do anything but print or compare.

A program counts only under its own name in a system folder: a multi-call binary (busybox) is a shell as well. Only
files in the command line are read as data; a library loaded into such a program is not.
"""

from __future__ import annotations

import os
from _blake2 import blake2b

FOLDERS = (b"/usr/bin", b"/bin")
NAMES = frozenset({b"cat", b"cmp", b"diff", b"grep", b"head", b"tail", b"wc", b"sha256sum", b"md5sum"})
MOST_DIGESTED = 512 << 10
"""Maximum size of a digested program, in bytes; larger ones are typically interpreters."""


def reads_as_data(program: bytes, words: list[bytes], path: bytes) -> bool:
    """Returns True if a program of the list opens a file in its own command line."""
    folder, name = os.path.split(program)
    if folder not in FOLDERS or name not in NAMES or (name == b"grep" and not _takes_fixed_text(words)):
        return False
    return any(path == word or path.startswith(word.rstrip(b"/") + b"/") for word in words[1:] if word)


def _takes_fixed_text(words: list[bytes]) -> bool:
    options = [word for word in words[1:] if word.startswith(b"-")]
    return any(word == b"--fixed-strings" or (word[1:2] != b"-" and b"F" in word) for word in options)


def digest_readers() -> dict[str, str]:
    """Returns the digest of each program of the list in a system folder, by its real path."""
    places = {os.path.realpath(os.path.join(folder, name)) for folder in FOLDERS for name in NAMES}
    listed = (place for place in places if os.path.dirname(place) in FOLDERS and os.path.basename(place) in NAMES)
    digests = {os.fsdecode(place): digest_file(place) for place in listed}
    return {place: digest for place, digest in digests.items() if digest}


def digest_program(pid: int) -> str:
    """Returns the digest of the program that a process executes; empty if it is large or unreadable."""
    return digest_file(b"/proc/%d/exe" % pid)


def digest_file(path: bytes) -> str:
    """Returns the digest of a file; empty if it is large or unreadable."""
    try:
        with open(path, "rb", buffering=0) as handle:
            if os.fstat(handle.fileno()).st_size > MOST_DIGESTED:
                return ""
            data = handle.read(MOST_DIGESTED + 1)
    except OSError:
        return ""
    return "blake2b:" + blake2b(data, digest_size=32).hexdigest()
