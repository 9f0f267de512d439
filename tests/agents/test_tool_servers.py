"""How each harness is told of MCP servers and skills."""

from __future__ import annotations

import tomllib
from typing import Any

import msgspec
import pytest

from assay.agents.harnesses import find_recipe, recipes
from assay.agents.harnesses.recipe import fill_template
from assay.agents.harnesses.tool_servers import COMMAND_NOTE, add_servers, copy_skills, served_toolbox
from assay.agents.interface import Toolbox, ToolServer
from assay.agents.testing import FakeWorkspace
from assay.environments.interface import ExecResult
from assay.errors import UserError

pytestmark = pytest.mark.quick
URL = "http://127.0.0.1:7/mcp"
HTTP = ToolServer("web", "http", URL, headers={"Authorization": "Bearer x"})
STDIO = ToolServer("own", "stdio", command=("python3", "/srv/a b.py"))
SSE = ToolServer("old", "sse", "http://127.0.0.1:7/sse")
WITH = [recipe.name for recipe in recipes() if recipe.servers is not None]
HEADERS = {"headers": {"Authorization": "Bearer x"}}
LOCAL = {"command": "python3", "args": ["/srv/a b.py"]}
EXPECTED: dict[str, dict[str, dict[str, Any]]] = {
    "claude-code": {"web": {"type": "http", "url": URL, **HEADERS}, "own": {"type": "stdio", **LOCAL}},
    "codex": {
        "web": {"url": URL, "http_headers": HEADERS["headers"], "default_tools_approval_mode": "approve"},
        "own": {**LOCAL, "startup_timeout_sec": 60, "default_tools_approval_mode": "approve"},
    },
    "gemini-cli": {"web": {"httpUrl": URL, **HEADERS, "trust": True}, "own": {**LOCAL, "trust": True}},
    "qwen-code": {"web": {"httpUrl": URL, **HEADERS, "trust": True}, "own": {**LOCAL, "trust": True}},
    "opencode": {
        "web": {"type": "remote", "url": URL, **HEADERS, "enabled": True},
        "own": {"type": "local", "command": ["python3", "/srv/a b.py"], "enabled": True},
    },
    "pi": {"web": {"type": "http", "url": URL, **HEADERS}, "own": {"type": "stdio", **LOCAL}},
    "openhands-sdk": {"web": {"url": URL, "transport": "http", **HEADERS}, "own": LOCAL},
}


def files_of(name: str) -> dict[str, str]:
    names = ("url", "openai", "key", "model", "dialect", "home", "context", "output", "api", "base")
    return {path: fill_template(text, dict.fromkeys(names, "1")) for path, text in find_recipe(name).files.items()}


def read_settings(text: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(text) if path.endswith(".toml") else msgspec.json.decode(text)
    return found


@pytest.mark.parametrize("name", WITH)
def test_entries_have_the_form_that_the_harness_reads(name: str) -> None:
    recipe = find_recipe(name)
    assert recipe.servers is not None
    path, before = recipe.servers.file, files_of(name)
    after = read_settings(add_servers(before, recipe, (HTTP, STDIO))[path], path)
    (key,) = set(after) & {"mcpServers", "mcp_servers", "mcp"}
    assert after.pop(key) == EXPECTED[name]
    assert after == (read_settings(before[path], path) if path in before else {})


def test_every_harness_with_servers_has_an_expectation() -> None:
    assert set(EXPECTED) == set(WITH)


def test_server_that_a_harness_cannot_reach_is_named() -> None:
    with pytest.raises(UserError, match="Codex takes MCP servers by http, stdio; the task's server 'old' is sse"):
        add_servers({}, find_recipe("codex"), (SSE,))
    with pytest.raises(UserError, match="mini-swe-agent takes no MCP servers, and the task has: web"):
        add_servers({}, find_recipe("mini-swe-agent"), (HTTP,))
    assert add_servers({"a": "b"}, find_recipe("mini-swe-agent"), ()) == {"a": "b"}


def test_pi_gets_an_extension_where_there_are_servers() -> None:
    recipe = find_recipe("pi")
    assert recipe.servers is not None
    (path,) = recipe.servers.files
    assert recipe.servers.words == ("--extension", f"${{home}}/{path}")
    assert "registerTool" in add_servers({}, recipe, (HTTP,))[path]
    assert path not in add_servers(recipe.files, recipe, ())


def test_harness_without_mcp_is_told_of_the_command() -> None:
    toolbox = Toolbox((ToolServer("service", "http", URL),), service_url=URL.removesuffix("/mcp"))
    assert served_toolbox(find_recipe("mini-swe-agent"), toolbox, "Do it.") == ((), "Do it." + COMMAND_NOTE)
    assert served_toolbox(find_recipe("codex"), toolbox, "Do it.") == (toolbox.servers, "Do it.")
    assert served_toolbox(find_recipe("mini-swe-agent"), Toolbox((HTTP,)), "Do it.") == ((HTTP,), "Do it.")


async def test_skills_are_copied_by_one_command() -> None:
    commands: list[Any] = []

    def answer(command: Any, files: dict[str, bytes]) -> ExecResult:
        commands.append(command)
        return ExecResult(0 if len(commands) == 1 else 1, "", "no space", 0.0)

    workspace = FakeWorkspace(answer)
    await copy_skills(workspace, "/task/skills", "/home/agent", find_recipe("claude-code"))
    assert commands[0][-2:] == ["/task/skills", "/home/agent/.claude/skills"]
    with pytest.raises(UserError, match="could not be copied: no space"):
        await copy_skills(workspace, "/task/skills", "/home/agent", find_recipe("codex"))
