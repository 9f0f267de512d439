"""The agent that makes given tool calls, in order: how the known solutions of in-process worlds are tried."""

from __future__ import annotations

from collections.abc import Sequence

from assay.environments.hooks import Collects
from assay.records import Evidence, ToolCall, digest_record

from .interface import Attempt

__all__ = ["CallsAgent"]


class CallsAgent:
    """Makes the calls, one step each, and notes where the world ended where that can be told.

    Args:
        name: What the record calls it.
        calls: What to do.
    """

    needs_model = False

    def __init__(self, name: str, calls: Sequence[ToolCall]) -> None:
        self.name = name
        self._calls = tuple(calls)

    async def run(self, attempt: Attempt) -> None:
        for call in self._calls:
            await attempt.act([call])
            if attempt.ended is not None:
                break
        ended = await attempt.tools.digest()
        if isinstance(attempt.tools, Collects):
            ended = digest_record(attempt.tools.collect())
        attempt.note(Evidence("ended", "state", "world_ended", {"digest": ended}))
        attempt.finish(f"made {len(self._calls)} calls")
