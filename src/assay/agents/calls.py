"""Agent that makes given tool calls, in order; used for the known solutions of in-process worlds."""

from __future__ import annotations

from collections.abc import Sequence

from assay.environments.hooks import Collects
from assay.records import Evidence, ToolCall, digest_record

from .interface import Attempt


class CallsAgent:
    """Makes one call per step, and notes the world's final state if available."""

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
