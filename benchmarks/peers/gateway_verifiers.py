"""verifiers' interception server, held open by harnesses that only say where they would have called.

    python gateway_verifiers.py PORT UPSTREAM_PORT FOLDER SESSIONS

The port is the server's own choice; its model client is the one that it ships for evaluation.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from gateway_addresses import PATH, address, announce
from verifiers.v1.agent import Agent
from verifiers.v1.configs.agent import AgentConfig
from verifiers.v1.configs.client import EvalClientConfig
from verifiers.v1.harness import Harness, HarnessConfig
from verifiers.v1.interception import InterceptionServer
from verifiers.v1.runtimes import ProgramResult, SubprocessConfig
from verifiers.v1.task import Task, TaskData

MODEL = "mock"


class Waiting(Harness[HarnessConfig]):
    """Says its address, and waits."""

    NEEDS_CONTAINER = False
    EXECUTES_CODE = False
    found: ClassVar[list[dict[str, Any]]] = []
    all_here = asyncio.Event()
    wanted = 0

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data) -> ProgramResult:
        """The address is that of the shared server."""
        parts = urlsplit(endpoint)
        path = parts.path.rstrip("/") + PATH.removeprefix("/v1") if parts.path else PATH
        self.found.append(address(parts.port or 0, path, secret))
        if len(self.found) == self.wanted:
            self.all_here.set()
        await asyncio.Event().wait()
        return ProgramResult(0, "", "")


async def main() -> None:
    upstream, folder, sessions = int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    client = EvalClientConfig(base_url=f"http://127.0.0.1:{upstream}/v1", api_key_var="HOME")
    config = AgentConfig(model=MODEL, client=client, runtime=SubprocessConfig(), harness={"id": "null"})
    Waiting.wanted = sessions
    async with InterceptionServer() as shared:
        agent = Agent(config, interception=shared)
        agent.harness = Waiting(config.harness)
        async with agent:
            runs = [asyncio.ensure_future(agent.run(Task(TaskData(idx=n, prompt="x")))) for n in range(sessions)]
            await asyncio.wait({asyncio.ensure_future(Waiting.all_here.wait()), *runs}, return_when="FIRST_COMPLETED")
            await announce(folder, Waiting.found)


asyncio.run(main())
