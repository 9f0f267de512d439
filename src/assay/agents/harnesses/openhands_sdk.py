"""OpenHands' agent, run by a short Python program of its SDK: terminal, file editor, finish."""

from __future__ import annotations

from .agent import HarnessAgent
from .recipe import Pip, Recipe, ServerSettings

_PROGRAM = """\
import json
import os
import pathlib
import sys

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.terminal import TerminalTool

llm = LLM(model="openai/" + sys.argv[1], base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
servers = pathlib.Path(__file__).with_name("servers.json")
more = {"mcp_config": json.loads(servers.read_text())} if servers.exists() else {}
agent = Agent(llm=llm, tools=[Tool(name=TerminalTool.name), Tool(name=FileEditorTool.name)], **more)
conversation = Conversation(agent=agent, workspace=os.getcwd())
conversation.send_message(sys.stdin.read())
conversation.run()
"""
RECIPE = Recipe(
    name="openhands-sdk",
    title="OpenHands SDK",
    install=Pip(("openhands-sdk==1.58.0", "openhands-tools==1.58.0"), python=(3, 12), built=("func-timeout",)),
    dialects=("openai-chat",),
    command=("${python}", "-I", "${tree}/start.py", "${home}/.openhands/run.py", "${model}"),
    env={
        "OPENAI_BASE_URL": "${openai}",
        "OPENAI_API_KEY": "${key}",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "HISTFILE": "/dev/null",
    },
    files={".openhands/run.py": _PROGRAM},
    own=(".openhands", ".cache"),
    servers=ServerSettings(style="openhands", file=".openhands/servers.json"),
    side_calls="none",
)


class OpenHandsSdkAgent(HarnessAgent):
    """Runs OpenHands' agent."""

    recipe = RECIPE
