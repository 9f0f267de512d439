"""Claude Code, Anthropic's command-line agent.

With `lean` it is started `--bare`: three tools and a tenth of the prompt. It knows no model of ours by name, warns
about that, and assumes the largest context.
"""

from __future__ import annotations

from .agent import HarnessAgent
from .recipe import Npm, Recipe, ServerSettings

RECIPE = Recipe(
    name="claude-code",
    title="Claude Code",
    install=Npm(
        "@anthropic-ai/claude-code",
        "2.1.329",
        native={
            "x86_64": "@anthropic-ai/claude-code-linux-x64/claude",
            "aarch64": "@anthropic-ai/claude-code-linux-arm64/claude",
        },
    ),
    dialects=("anthropic-messages",),
    command=("${program}", "-p", "--output-format", "json", "--dangerously-skip-permissions"),
    lean=("--bare",),
    env={
        "ANTHROPIC_BASE_URL": "${url}",
        "ANTHROPIC_API_KEY": "${key}",
        "ANTHROPIC_MODEL": "${model}",
        "CLAUDE_CONFIG_DIR": "${home}/.claude",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "DISABLE_AUTOUPDATER": "1",
        "IS_SANDBOX": "1",
    },
    own=(".claude", ".cache", ".local/share/claude", ".local/state/claude"),
    servers=ServerSettings(
        style="claude",
        file=".claude/task-servers.json",
        words=("--mcp-config", "${home}/.claude/task-servers.json", "--strict-mcp-config"),
        env={"ENABLE_TOOL_SEARCH": "false"},  # else tools of servers are found by a search in mid-session
    ),
    skills=".claude/skills",
    side_calls="none in `-p`; compaction is a call of the same conversation",
    # `ToolSearch` adds tools in mid-session, which ends a token prefix; `lean` has none.
)


class ClaudeCodeAgent(HarnessAgent):
    """Runs Claude Code."""

    recipe = RECIPE
