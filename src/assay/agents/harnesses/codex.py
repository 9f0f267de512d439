"""Codex, OpenAI's command-line agent.

`config.toml` declares a provider, because the default one tries a websocket first and sends no key. Updates, plugins,
web search and statistics are disabled; with `lean` sub-agents and goals too.
"""

from __future__ import annotations

from .agent import HarnessAgent
from .recipe import Npm, Recipe, ServerSettings

_CONFIG = """\
model = "${model}"
model_provider = "assay"
model_context_window = ${context}
web_search = "disabled"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
apps = false
plugins = false

[model_providers.assay]
name = "assay"
base_url = "${openai}"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
stream_idle_timeout_ms = 3600000
"""
RECIPE = Recipe(
    name="codex",
    title="Codex",
    install=Npm(
        "@openai/codex",
        "0.169.0",
        native={
            "x86_64": "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
            "aarch64": "@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
        },
    ),
    dialects=("openai-responses",),
    command=("${program}", "exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "--json"),
    after=("-",),
    lean=("-c", "features.multi_agent=false", "-c", "features.goals=false", "-c", "features.shell_snapshot=false"),
    env={"CODEX_HOME": "${home}/.codex", "OPENAI_API_KEY": "${key}"},
    files={".codex/config.toml": _CONFIG},
    own=(".codex", ".cache"),
    servers=ServerSettings(style="codex", file=".codex/config.toml", transports=("http", "stdio")),
    skills=".codex/skills",
    side_calls="none; compaction is a call without tools",
    # The text comes by standard input, which it would wait for anyway.
)


class CodexAgent(HarnessAgent):
    """Runs Codex."""

    recipe = RECIPE
