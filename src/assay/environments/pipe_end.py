"""Ends of pipes that an event loop reads or writes."""

from __future__ import annotations

import asyncio
import os


class PipeEnd:
    """A descriptor for `connect_read_pipe` or `connect_write_pipe` of the running event loop, which owns it from then
    on.

    asyncio closes it by `close`. uvloop closes the number itself, and then a file of that number once more: by then it
    may be the number of another's descriptor. So no file is given to it.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._is_closed_here = isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        """Closes the descriptor, unless the event loop does. Idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0 and self._is_closed_here:
            os.close(fd)
