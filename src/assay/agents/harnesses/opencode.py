"""opencode, the open-source command-line agent.

The task is its standard input, because an argument would reach the model in quotation marks. A given title avoids a
model call for one.
"""

from __future__ import annotations

from .agent import HarnessAgent
from .recipe import Npm, Recipe, ServerSettings

_CONFIG = """\
{
  "autoupdate": false,
  "share": "disabled",
  "model": "assay/${model}",
  "small_model": "assay/${model}",
  "permission": "allow",
  "provider": {
    "assay": {
      "npm": "@ai-sdk/openai-compatible",
      "name": "assay",
      "options": {"baseURL": "${openai}", "apiKey": "${key}", "timeout": false},
      "models": {"${model}": {"name": "${model}", "limit": {"context": ${context}, "output": ${output}}}}
    }
  }
}
"""
RECIPE = Recipe(
    name="opencode",
    title="opencode",
    install=Npm(
        "opencode-ai",
        "1.18.33",
        native={"x86_64": "opencode-linux-x64/bin/opencode", "aarch64": "opencode-linux-arm64/bin/opencode"},
    ),
    dialects=("openai-chat",),
    command=("${program}", "run", "--title", "task"),
    env={
        "OPENCODE_CONFIG": "${home}/.config/opencode/opencode.json",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
    },
    files={".config/opencode/opencode.json": _CONFIG},
    own=(".config/opencode", ".local/share/opencode", ".local/state/opencode", ".cache"),
    servers=ServerSettings(style="opencode", file=".config/opencode/opencode.json"),
    skills=".config/opencode/skills",
    side_calls="a title, unless one is given (`--title`, which is)",
    # It asks a refused request again without end; the attempt's limits end that.
)


class OpencodeAgent(HarnessAgent):
    """Runs opencode."""

    recipe = RECIPE
