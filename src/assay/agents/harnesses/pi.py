"""pi, a small command-line agent that speaks three APIs: `--agent-option dialect=anthropic-messages`, for example."""

from __future__ import annotations

from .agent import HarnessAgent
from .recipe import Npm, Recipe

_MODELS = """\
{
  "providers": {
    "assay": {
      "baseUrl": "${base}",
      "api": "${api}",
      "apiKey": "${key}",
      "models": [
        {
          "id": "${model}",
          "name": "${model}",
          "reasoning": true,
          "input": ["text", "image"],
          "contextWindow": ${context},
          "maxTokens": ${output},
          "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        }
      ]
    }
  }
}
"""
RECIPE = Recipe(
    name="pi",
    title="pi",
    install=Npm("@mariozechner/pi-coding-agent", "0.73.1"),
    dialects=("openai-chat", "openai-responses", "anthropic-messages"),
    by_dialect={
        "openai-chat": {"api": "openai-completions", "base": "${openai}"},
        "openai-responses": {"api": "openai-responses", "base": "${openai}"},
        "anthropic-messages": {"api": "anthropic-messages", "base": "${url}"},
    },
    command=(
        "${node}",
        "--max-old-space-size=1024",
        "${tree}/node_modules/@mariozechner/pi-coding-agent/dist/cli.js",
        "--provider",
        "assay",
        "--model",
        "${model}",
        "-p",
    ),
    env={"PI_OFFLINE": "1", "PI_CODING_AGENT_DIR": "${home}/.pi/agent"},
    files={".pi/agent/models.json": _MODELS},
    own=(".pi", ".cache"),
    skills=".pi/agent/skills",
    side_calls="none",
    # It ends with 0 also where the answer was empty or could not be read.
)


class PiAgent(HarnessAgent):
    """Runs pi."""

    recipe = RECIPE
