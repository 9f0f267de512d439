"""Control over the attempts of several runs from outside: slots that the runs share.

Not for limits of one run (`RunConfig.concurrency`) or of one attempt (`meter`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class RunControls:
    """The controls of runs that are under way in one process. `concurrency` bounds their attempts together."""

    def __init__(self, concurrency: int) -> None:
        self._slots = asyncio.Semaphore(concurrency)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for a slot, in the order of the calls, and holds it."""
        async with self._slots:
            yield
