"""The tool loop with a scripted model: no server, no API key, deterministic."""

import asyncio

from assay.agents.loop import LoopAgent
from assay.agents.testing import FakeAttempt, FakeTools
from assay.gateway.backends.scripted import ScriptedBackend

REPLIES = [
    {"tool_calls": [{"name": "add", "arguments": {"x": 2, "y": 3}}]},
    {"tool_calls": [{"name": "finish", "arguments": {"message": "The sum is 5."}}]},
]


async def main() -> None:
    """Two turns: one tool call, one answer."""
    tools = FakeTools({"add": lambda given: str(given["x"] + given["y"])})
    attempt = FakeAttempt(backend=ScriptedBackend(REPLIES), tools=tools)
    await LoopAgent().run(attempt)
    for step in attempt.steps:
        print(step.message, [call.name for call in step.tool_calls], [o.content for o in step.observations])
    print(attempt.ended)


if __name__ == "__main__":
    asyncio.run(main())
