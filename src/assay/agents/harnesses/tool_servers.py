"""Tells harnesses of MCP servers and skills: entries in their settings files, and words for those that have no MCP.

Each harness has a format of its own (`ServerSettings.style`). A server that a harness cannot reach is refused by name,
because an agent without a tool of its task would fail for a cause that its record does not show. Skills are help that
a task can be done without: a harness that has none runs without them, which is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
import tomli_w

from assay.agents.interface import Toolbox, ToolServer
from assay.environments.interface import Workspace
from assay.errors import UserError

from .recipe import Recipe, ServerSettings

_COPY = 'if [ -d "$1" ]; then mkdir -p "$2" && cp -R "$1/." "$2/"; fi'
_COPY_S = 60.0
_START_S: Final = 60
COMMAND_NOTE: Final = """\


You act by the command `service` in your shell: `service list` names the actions, `service help ACTION` explains one,
`service ACTION --argument value` does it, and `service policy` prints the rules."""


def add_servers(files: dict[str, str], recipe: Recipe, servers: tuple[ToolServer, ...]) -> dict[str, str]:
    """Returns a recipe's files with entries for the servers; paths are below the home folder.

    Raises:
        UserError: The harness takes no MCP servers, or not by this transport.
    """
    if not servers:
        return files
    settings = recipe.servers
    if settings is None:
        names = ", ".join(server.name for server in servers)
        raise UserError(f"{recipe.title} takes no MCP servers, and the task has: {names}")
    for server in servers:
        if server.transport not in settings.transports:
            known = ", ".join(settings.transports)
            raise UserError(
                f"{recipe.title} takes MCP servers by {known}; the task's server {server.name!r} is {server.transport}"
            )
    return {**files, **settings.files, settings.file: _extend(files.get(settings.file, ""), settings, servers)}


def _extend(text: str, settings: ServerSettings, servers: Iterable[ToolServer]) -> str:
    entries = {server.name: _ENTRIES[settings.style](server) for server in servers}
    if settings.style == "codex":
        return f"{text}\n{tomli_w.dumps({'mcp_servers': entries})}"
    known: dict[str, Any] = msgspec.json.decode(text) if text else {}
    known["mcp" if settings.style == "opencode" else "mcpServers"] = entries
    return msgspec.json.format(msgspec.json.encode(known), indent=2).decode()


def _typed(server: ToolServer) -> dict[str, Any]:
    """Claude Code, which drops an entry without a type without a message; and the extension for pi."""
    if server.transport == "stdio":
        return {"type": "stdio", "command": server.command[0], "args": list(server.command[1:])}
    return {"type": server.transport, "url": server.url, "headers": server.headers}


def _codex(server: ToolServer) -> dict[str, Any]:
    """Codex; without the approval mode it cancels calls of tools that are not marked as read-only, and it goes on
    without a server that has not started within 10 seconds."""
    allowed: dict[str, Any] = {"default_tools_approval_mode": "approve"}
    if server.transport == "stdio":
        waits = {"startup_timeout_sec": _START_S}
        return {"command": server.command[0], "args": list(server.command[1:]), **waits, **allowed}
    headers = {"http_headers": server.headers} if server.headers else {}
    return {"url": server.url, **headers, **allowed}


def _gemini(server: ToolServer) -> dict[str, Any]:
    """Gemini CLI and Qwen Code; `url` there is that of server-sent events."""
    if server.transport == "stdio":
        return {"command": server.command[0], "args": list(server.command[1:]), "trust": True}
    key = "url" if server.transport == "sse" else "httpUrl"
    return {key: server.url, "headers": server.headers, "trust": True}


def _opencode(server: ToolServer) -> dict[str, Any]:
    if server.transport == "stdio":
        return {"type": "local", "command": list(server.command), "enabled": True}
    return {"type": "remote", "url": server.url, "headers": server.headers, "enabled": True}


def _openhands(server: ToolServer) -> dict[str, Any]:
    if server.transport == "stdio":
        return {"command": server.command[0], "args": list(server.command[1:])}
    return {"url": server.url, "transport": server.transport, "headers": server.headers}


_ENTRIES: Final[dict[str, Callable[[ToolServer], dict[str, Any]]]] = {
    "claude": _typed,
    "codex": _codex,
    "gemini": _gemini,
    "opencode": _opencode,
    "openhands": _openhands,
    "pi": _typed,
}


def served_toolbox(recipe: Recipe, toolbox: Toolbox, instruction: str) -> tuple[tuple[ToolServer, ...], str]:
    """Returns the servers that the harness is told of, and the instruction, which names the command `service` where the
    harness reaches the world by that alone."""
    if recipe.servers is not None or not toolbox.service_url:
        return toolbox.servers, instruction
    others = tuple(server for server in toolbox.servers if not server.url.startswith(toolbox.service_url))
    return others, instruction + COMMAND_NOTE


async def copy_skills(workspace: Workspace, skills: str, home: str, recipe: Recipe) -> None:
    """Copies the task's skills to where the harness looks for them. Raises `UserError` if that fails."""
    command = ["/bin/sh", "-c", _COPY, "copy-skills", skills, f"{home}/{recipe.skills}"]
    result = await workspace.exec(command, timeout_s=_COPY_S)
    if result.exit_code != 0:
        raise UserError(f"the task's skills in {skills} could not be copied: {result.stderr.strip()[-300:]}")
