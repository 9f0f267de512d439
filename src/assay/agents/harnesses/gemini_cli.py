"""Gemini CLI, Google's command-line agent."""

from __future__ import annotations

from .agent import HarnessAgent
from .recipe import Npm, Recipe, ServerSettings

_SETTINGS = """\
{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "privacy": {"usageStatisticsEnabled": false},
  "telemetry": {"enabled": false},
  "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false}
}
"""
RECIPE = Recipe(
    name="gemini-cli",
    title="Gemini CLI",
    install=Npm("@google/gemini-cli", "0.61.0"),
    dialects=("gemini",),
    command=(
        "${node}",
        "--max-old-space-size=1024",
        "${tree}/node_modules/@google/gemini-cli/bundle/gemini.js",
        "--yolo",
        "-m",
        "${model}",
    ),
    env={
        "GOOGLE_GEMINI_BASE_URL": "${url}",
        "GEMINI_API_KEY": "${key}",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_NO_RELAUNCH": "true",
    },
    files={".gemini/settings.json": _SETTINGS},
    own=(".gemini", ".cache"),
    servers=ServerSettings(style="gemini", file=".gemini/settings.json"),
    skills=".gemini/skills",
    side_calls="none with `-m`, which is given; else a router asks a smaller model first",
    # It does not try again after a stream that was cut.
)


class GeminiCliAgent(HarnessAgent):
    """Runs Gemini CLI."""

    recipe = RECIPE
