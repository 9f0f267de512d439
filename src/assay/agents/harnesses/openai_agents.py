"""The library openai-agents, for programs that the agent `command` runs: see docs/how-to/run-your-own-agent.md."""

from __future__ import annotations

from .recipe import Pip, Recipe

RECIPE = Recipe(
    name="openai-agents",
    title="OpenAI Agents SDK",
    install=Pip(("openai-agents==0.24.0",)),
    dialects=("openai-chat", "openai-responses"),
    command=(),
    side_calls="none; traces are sent elsewhere unless the program calls `set_tracing_disabled(True)`",
)
