"""`assay gateway`: the gateway alone, in front of any model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from assay.rollout.exchange.config import ServeConfig

from .options import takes_config
from .output import console, emit_json, say
from .shared import JsonOption, StoreOption, settings_with

if TYPE_CHECKING:
    from assay.agents.interface import Endpoint
    from assay.rollout.exchange.standalone_gateway import RecordingResult
    from assay.settings import Settings


@takes_config(ServeConfig, arguments=())
def gateway(config: ServeConfig, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Serves a model to external agents and records every call.

    Prints an address and a key for each session. It speaks Chat Completions and Responses (base URL: the address with
    /v1), Anthropic Messages and Gemini (the address as it is). Each session is recorded as a trajectory without a task.
    Ctrl-C ends it; nothing that was answered is lost, whatever ends it.

    Examples:

      assay gateway --model openai:NAME

      assay gateway --model anthropic:NAME --port 8123 --max-calls 200 --max-tokens 500000

      assay gateway --model scripted:replies.json --sessions 4 --json
    """
    settings = settings_with(store)
    recorded = asyncio.run(_serve(config, settings, as_json=as_json))

    say(f"run {recorded.run}; next: assay ls {recorded.run}, assay show {recorded.attempts[0]} --run {recorded.run}")


async def _serve(config: ServeConfig, settings: Settings, *, as_json: bool) -> RecordingResult:
    import signal

    from assay.rollout.exchange.standalone_gateway import serve_gateway

    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    waiting = ended.wait()
    try:
        return await serve_gateway(config, settings, lambda run, open_: _show(run, open_, as_json=as_json), waiting)
    finally:
        waiting.close()  # Python warns of a coroutine that was never awaited, as after a failed start


def _show(run: str, sessions: tuple[Endpoint, ...], *, as_json: bool) -> None:
    import sys

    shown = [{"url": one.url, "key": one.key, "model": one.model} for one in sessions]
    if as_json:
        emit_json({"run": run, "sessions": shown})
    else:
        out = console()
        for one in shown:
            out.print(f"url   {one['url']}     (OpenAI clients: {one['url']}/v1)\nkey   {one['key']}")
        out.print(f"model {shown[0]['model']}, recorded as run {run}; Ctrl-C ends it")
    console(stderr=True).print("isolation none: nothing is known of how these agents are isolated", style="bold red")
    sys.stdout.flush()
