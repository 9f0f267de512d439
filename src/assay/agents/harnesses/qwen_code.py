"""Qwen Code, Alibaba's command-line agent."""

from __future__ import annotations

from .agent import HarnessAgent
from .recipe import Npm, Recipe, ServerSettings

_SETTINGS = """\
{
  "privacy": {"usageStatisticsEnabled": false},
  "general": {"disableAutoUpdate": true},
  "security": {"auth": {"selectedType": "openai"}},
  "model": {"generationConfig": {"contextWindowSize": ${context}}}
}
"""
RECIPE = Recipe(
    name="qwen-code",
    title="Qwen Code",
    install=Npm("@qwen-code/qwen-code", "0.24.4"),
    dialects=("openai-chat",),
    command=("${node}", "--max-old-space-size=1024", "${tree}/node_modules/@qwen-code/qwen-code/cli.js", "--yolo"),
    lean=("--bare",),
    env={
        "OPENAI_BASE_URL": "${openai}",
        "OPENAI_API_KEY": "${key}",
        "OPENAI_MODEL": "${model}",
        "QWEN_STREAM_IDLE_TIMEOUT_MS": "3600000",
    },
    files={".qwen/settings.json": _SETTINGS},
    own=(".qwen", ".cache"),
    servers=ServerSettings(style="gemini", file=".qwen/settings.json"),
    skills=".qwen/skills",
    side_calls="none; compaction is a call without tools",
    # It drops a turn whose arguments are no JSON and asks the same again.
)


class QwenCodeAgent(HarnessAgent):
    """Runs Qwen Code."""

    recipe = RECIPE
