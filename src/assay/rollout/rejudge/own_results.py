"""Recognises the results of re-verification that this user wrote, by a key that only the user's cache holds.

Whoever makes a store can write into it that its attempts were judged again. Such a result is judged anew: earlier ones
count only with a code over the record and the results, made with a key that no store has. On another machine, or
without a cache, nothing counts.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from blake3 import blake3

from assay.records import GENESIS, canonical_bytes
from assay.store.chain import Link, link_digest

FILE: Final = "reverification.key"
CODE: Final = "own"
"""The name of the code in a result's data."""
_KEY_BYTES: Final = 32
_COVERED: Final = ("basis", "rounds", "results")


class OwnResults:
    """The user's key. `cache` is the folder of the user's caches."""

    def __init__(self, cache: Path) -> None:
        self._key = _load_key(cache / FILE)

    def code(self, chain: str, head: str, data: Mapping[str, Any]) -> str | None:
        """Returns the code of a result about a chain whose end has the digest `head`; None without a key."""
        if self._key is None:
            return None
        covered = canonical_bytes([chain, head, *(data.get(name) for name in _COVERED)])
        return str(blake3(covered, key=self._key).hexdigest())

    def is_own(self, chain: str, head: str, data: Mapping[str, Any]) -> bool:
        """Returns whether a result has its code."""
        code, given = self.code(chain, head, data), data.get(CODE)
        return code is not None and isinstance(given, str) and hmac.compare_digest(code.encode(), given.encode())


def compute_head(chain: str, links: Iterable[Link]) -> str:
    """Returns the digest of a chain's last event, computed from the bytes of all: a store may name another."""
    head = GENESIS
    for link in links:
        head = link_digest(chain, link.index, head, link.body)
    return head


def _load_key(path: Path) -> bytes | None:
    """Returns the key, made at first use; None where it cannot be kept, or another user may know it."""
    with contextlib.suppress(OSError):
        if not path.exists():
            _write_key(path)
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            key = file.read(_KEY_BYTES + 1)
        if status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077 and len(key) == _KEY_BYTES:
            return key
    return None


def _write_key(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".key-") as file:
        file.write(secrets.token_bytes(_KEY_BYTES))
        file.flush()
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.link(file.name, path)
