"""mini-swe-agent: its one tool is a shell; the model finishes by echoing a marker line."""

from __future__ import annotations

from .agent import HarnessAgent
from .recipe import Pip, Recipe

RECIPE = Recipe(
    name="mini-swe-agent",
    title="mini-swe-agent",
    # Without `mcp` LiteLLM tries again for ever after an import that fails.
    install=Pip(("mini-swe-agent==2.4.6", "mcp==2.3.0")),
    dialects=("openai-chat",),
    command=(
        *("${python}", "-I", "${tree}/start.py", "-m", "minisweagent.run.mini"),
        *("-m", "openai/${model}", "-y", "--exit-immediately", "-l", "0"),
        *("-o", "${home}/.config/mini-swe-agent/last.traj.json"),
    ),
    after=("-t", "${instruction}"),
    env={
        "OPENAI_API_BASE": "${openai}",
        "OPENAI_API_KEY": "${key}",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_GLOBAL_CONFIG_DIR": "${home}/.config/mini-swe-agent",
    },
    own=(".config/mini-swe-agent", ".cache"),
    side_calls="none",
    # Its end is the shell command `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT`.
)


class MiniSweAgent(HarnessAgent):
    """Runs mini-swe-agent."""

    recipe = RECIPE
