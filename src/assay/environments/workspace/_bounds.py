"""Bounds of a list of changes: an agent can make more paths in a minute than a runner can list in an hour.

What is over a bound is a fact about the state, raised as `StateLimitError`: nothing of the host has failed.
"""

from __future__ import annotations

import time

from assay.errors import StateLimitError

__all__ = ["MOST_CHANGES", "MOST_PATH_BYTES", "MOST_SCAN_CPU_S", "ScanBudget"]

MOST_CHANGES = 300_000
"""Paths that differ from the image."""
MOST_PATH_BYTES = 64 << 20
"""Bytes of their names together."""
MOST_SCAN_CPU_S = 30.0
"""CPU seconds of the thread that lists and hashes; waiting for a busy machine does not count."""


class ScanBudget:
    """The budget of one scan of one tree. Made in the thread that scans."""

    def __init__(self) -> None:
        self._entries = 0
        self._bytes = 0
        self._deadline = time.thread_time() + MOST_SCAN_CPU_S

    def charge(self, path: str) -> None:
        """Counts one path.

        Raises:
            StateLimitError: A bound is passed.
        """
        self._entries += 1
        self._bytes += len(path)
        if self._entries > MOST_CHANGES:
            message = f"the state has more than {MOST_CHANGES:,} changed paths"
            raise StateLimitError(message)
        if self._bytes > MOST_PATH_BYTES:
            message = f"the names of the changed paths take more than {MOST_PATH_BYTES >> 20} MiB"
            raise StateLimitError(message)
        if time.thread_time() > self._deadline:
            message = f"listing the changed paths takes more than {MOST_SCAN_CPU_S:g} CPU seconds"
            raise StateLimitError(message)
