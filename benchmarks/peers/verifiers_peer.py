"""verifiers with its interception server, a harness that runs its loop in this process, and a scripted client.

Its contract lets a harness run in the process as long as every model call goes through the interception server; that
exchange (over the loopback, with aiohttp, the cheapest client at hand) is therefore part of a turn here. The client
behind the server answers in the process. Every finished trace is written as one JSON line.
"""

from __future__ import annotations

import asyncio
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiohttp
import verifiers.v1.interception.server as interception
from episode import INSTRUCTION, SAID, SYSTEM, TURNS, given, measure
from verifiers.v1.agent import Agent
from verifiers.v1.clients import Client
from verifiers.v1.configs.agent import AgentConfig
from verifiers.v1.configs.client import EvalClientConfig
from verifiers.v1.harness import Harness, HarnessConfig
from verifiers.v1.runtimes import ProgramResult, SubprocessConfig
from verifiers.v1.task import Task, TaskData

ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Adds to the counter.",
        "parameters": {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]},
    },
}


class Scripted(Client):
    """The model."""

    async def get_response(self, dialect: Any, body: dict[str, Any], sampling: Any, *_: Any, **__: Any) -> Any:
        """One call of `add`."""
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "add", "arguments": '{"by": 1}'}}
        raw = {
            "id": f"reply-{turn}",
            "object": "chat.completion",
            "created": 0,
            "model": "mock",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "message": {"role": "assistant", "content": SAID, "tool_calls": [call]},
                }
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
        response = dialect.parse_response(dialect.validate_response(raw))
        response.raw = raw
        return response


class InProcess(Harness[HarnessConfig]):
    """The tool loop."""

    NEEDS_CONTAINER = False
    EXECUTES_CODE = False
    http: aiohttp.ClientSession

    async def launch(self, ctx, trace, runtime, endpoint, secret, mcp_urls, data) -> ProgramResult:
        """Ten turns."""
        counter = 0
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": INSTRUCTION},
        ]
        for _ in range(TURNS):
            body = {"model": ctx.model, "messages": messages, "tools": [ADD]}
            headers = {"authorization": f"Bearer {secret}"}
            async with self.http.post(f"{endpoint}/chat/completions", json=body, headers=headers) as reply:
                said = (await reply.json())["choices"][0]["message"]
            (call,) = said["tool_calls"]
            counter += json.loads(call["function"]["arguments"])["by"]
            messages += [said, {"role": "tool", "tool_call_id": call["id"], "content": str(counter)}]
        return ProgramResult(0, "", "")


interception.resolve_client = lambda _: Scripted()


async def attempts_of(attempts: int, folder: Path) -> int:
    """All attempts, as many under way as were asked for."""
    client = EvalClientConfig(base_url="http://127.0.0.1:9/v1", api_key_var="HOME")
    config = AgentConfig(model="mock", client=client, runtime=SubprocessConfig(), harness={"id": "null"})
    agent = Agent(config)
    agent.harness = InProcess(config.harness)
    places = asyncio.Semaphore(given().at_once)
    turns = 0

    async def one(number: int, log: Any) -> int:
        async with places:
            trace = await agent.run(Task(TaskData(idx=number, prompt=INSTRUCTION, system_prompt=SYSTEM)))
            if not trace.ok:
                raise SystemExit(f"a rollout failed: {trace.errors}"[:500])
            log.write(trace.model_dump_json() + "\n")
            return TURNS

    async with agent, aiohttp.ClientSession() as http:
        InProcess.http = http
        with (folder / "traces.jsonl").open("w") as log:
            turns = sum(await asyncio.gather(*(one(n, log) for n in range(attempts))))
    return turns


def run(attempts: int, folder: Path) -> int:
    """One event loop for one batch."""
    folder.mkdir(parents=True)
    return asyncio.run(attempts_of(attempts, folder))


measure(f"verifiers {version('verifiers')}", run)
