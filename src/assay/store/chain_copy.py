"""The exact bytes of a chain's events as they are committed, so that a record that was just made is not read back."""

from __future__ import annotations

from assay.records import GENESIS, Body

MOST_BYTES = 8 << 20


class ChainCopy:
    """A copy of one chain, which a store's `watch` fills. One of more than `MOST_BYTES` is given up."""

    def __init__(self) -> None:
        self.events: list[bytes] = []
        """The bodies, in order."""
        self.head = GENESIS
        self.is_whole = True
        """False if the copy was given up: read the chain from the store."""
        self._bytes = 0

    def add_committed(self, _: Body, raw: bytes, digest: str) -> None:
        """Adds an event that was committed; a store's watcher."""
        if not self.is_whole:
            return
        self.events.append(raw)
        self.head = digest
        self._bytes += len(raw)
        if self._bytes > MOST_BYTES:
            self.events, self.is_whole = [], False
