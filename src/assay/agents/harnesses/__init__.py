"""Command-line agents, one per file: installation, invocation and endpoint settings."""

from __future__ import annotations

import difflib
import importlib

from assay.errors import UserError

from .recipe import Recipe

__all__ = ["HARNESSES", "find_recipe", "recipes"]

HARNESSES = {
    "claude-code": "claude_code",
    "codex": "codex",
    "qwen-code": "qwen_code",
    "opencode": "opencode",
    "pi": "pi",
    "gemini-cli": "gemini_cli",
    "mini-swe-agent": "mini_swe_agent",
    "openhands-sdk": "openhands_sdk",
    "openai-agents": "openai_agents",
    "smolagents": "smolagents",
    "playwright-mcp": "playwright_mcp",
}
"""Name to module. `openai-agents` and `smolagents` are libraries, for programs that the agent `command` runs;
`playwright-mcp` is a server of tools, for the option `browser` of the others."""


def find_recipe(name: str) -> Recipe:
    """Returns the recipe of a name. Raises `UserError` with the nearest names."""
    if name not in HARNESSES:
        near = difflib.get_close_matches(name, HARNESSES, n=3) or list(HARNESSES)
        raise UserError(f"no harness is called {name!r}; there are {', '.join(near)} (`assay agents` lists all)")
    recipe: Recipe = importlib.import_module(f"{__name__}.{HARNESSES[name]}").RECIPE
    return recipe


def recipes() -> tuple[Recipe, ...]:
    """Returns all recipes in the order of `HARNESSES`."""
    return tuple(find_recipe(name) for name in HARNESSES)
