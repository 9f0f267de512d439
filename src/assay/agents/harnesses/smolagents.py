"""The library smolagents, for programs that the agent `command` runs: see docs/how-to/run-your-own-agent.md."""

from __future__ import annotations

from .recipe import Pip, Recipe

RECIPE = Recipe(
    name="smolagents",
    title="smolagents",
    install=Pip(("smolagents==1.26.0", "openai==2.16.0")),
    dialects=("openai-chat",),
    command=(),
    side_calls="one without tools where its steps are used up",
    # It ends with 0 also where it gave up.
)
