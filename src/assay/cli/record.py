"""`assay record`: any command in the current folder, with no task at all."""

from __future__ import annotations

import asyncio

import typer

from assay.rollout.exchange.config import RecordConfig

from .options import takes_config
from .output import console, emit_json, say
from .shared import JsonOption, StoreOption, settings_with


@takes_config(RecordConfig, arguments=("command",))
def record(config: RecordConfig, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Runs a command in this folder and records its model calls, the folder's state before each, and the exit.

    The command finds the model in its environment (OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL and
    their keys) and receives none of your credentials. It is not sandboxed and has your permissions. Exits with the
    command's own exit code.

    Examples:

      assay record --model openai:NAME -- claude -p "explain this folder"

      assay record --model anthropic:NAME --max-calls 50 --max-wall-s 600 -- python my_agent.py

      assay record -- make test
    """
    from pathlib import Path

    from assay.rollout.exchange.standalone_gateway import record_command

    settings = settings_with(store)
    console(stderr=True).print("isolation none: the command may do whatever you may", style="bold red")
    recorded = asyncio.run(record_command(config, settings, Path.cwd()))
    if as_json:
        emit_json({"run": recorded.run, "attempt": recorded.attempts[0], "exit_code": recorded.exit_code})
    say(f"run {recorded.run}; next: assay show {recorded.attempts[0]} --run {recorded.run}")
    code = recorded.exit_code or 0
    raise typer.Exit(code if code >= 0 else 128 - code)
