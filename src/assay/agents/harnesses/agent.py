"""Runs an installed harness in the sandbox: writes its settings, passes the endpoint and the task.

The task's text is the program's standard input or one whole word of its command; no shell reads it. Output and exit
code are recorded but decide nothing, because exit codes of harnesses are unreliable: the state is judged.

Covered: the program runs as the sandbox's agent, with no network but the endpoint, and its own folders are excluded
from the state. Not covered: what the program does with the task; like the model, it is untrusted.
"""

from __future__ import annotations

import time
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec

from assay.agents._calls import instruction_of
from assay.agents._options import read_options
from assay.agents.interface import Attempt, Endpoint, Needs, Toolbox, ToolServer
from assay.environments.interface import ExecResult, Mount, Workspace
from assay.errors import AgentError, UserError
from assay.records import Evidence
from assay.settings import Settings

from . import playwright_mcp
from .install import Installed, find_installed
from .recipe import Recipe, ServerSettings, fill_template, plain_model
from .tool_servers import add_servers, copy_skills, served_toolbox

HOME = "/home/agent"
LONGEST_WORD = 120_000
"""Maximum bytes of an instruction passed as a command word; the kernel allows 128 KiB."""


class HarnessOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of every harness."""

    dialect: str | None = None
    """API of the endpoint, among the supported ones; default the first."""
    lean: bool = False
    """Fewer tools and a shorter prompt, if the harness has a switch for that."""
    arguments: tuple[str, ...] = ()
    """Words added to its command line."""
    env: dict[str, str] = {}
    """Variables added to its environment."""
    context_tokens: Annotated[int, msgspec.Meta(ge=1024)] = 131_072
    """Context size passed to the harness; it compacts before that."""
    browser: Literal["", "playwright-mcp"] = ""
    """Browser of its own for a task with pages, in its sandbox: `playwright-mcp`, whose tools it then has in place of
    Assay's. Empty for the task's own tools."""
    output_tokens: Annotated[int, msgspec.Meta(ge=1)] = 8192
    """Maximum reply length passed to the harness."""


class _Invocation(NamedTuple):
    command: list[str]
    env: dict[str, str]
    stdin: bytes


class HarnessAgent:
    """Runs its class's `recipe`. Its options are the fields of `HarnessOptions`."""

    recipe: ClassVar[Recipe]
    needs_model = True
    host_options: ClassVar[frozenset[str]] = frozenset()
    """Options that name files of the machine that runs the agent: none, what they name is in the sandbox."""

    def __init__(self, **options: Any) -> None:
        recipe = self.recipe
        self.name = recipe.name
        self._options = read_options(HarnessOptions, options, recipe.name)
        self._dialect = self._options.dialect or recipe.dialects[0]
        if self._dialect not in recipe.dialects:
            raise UserError(f"{recipe.title} does not speak {self._dialect!r}; it speaks {', '.join(recipe.dialects)}")
        cache = Settings.from_environment().cache
        self._installed = find_installed(cache, recipe)
        self._browser = None
        if self._options.browser:
            if recipe.servers is None or "stdio" not in recipe.servers.transports:
                raise UserError(f"{recipe.title} starts no MCP servers of its own: leave out browser")
            self._browser = find_installed(cache, playwright_mcp.RECIPE)
        parts = (self._installed, *(() if self._browser is None else (self._browser,)))
        self.mounts: tuple[Mount, ...] = tuple(dict.fromkeys(mount for part in parts for mount in part.mounts()))
        self.needs: Needs = self._needs()

    def _needs(self) -> Needs:
        needs, own = self.recipe.needs, self.recipe.own
        if self._browser is not None:
            own, more = (*own, playwright_mcp.FOLDER), playwright_mcp.NEEDS
            names = ("memory_mib", "processes", "open_files", "tmp_mib")
            needs = msgspec.structs.replace(
                needs, **{name: max(getattr(needs, name), getattr(more, name)) for name in names}
            )
        return msgspec.structs.replace(needs, tmpfs=(*needs.tmpfs, *(f"{HOME}/{folder}" for folder in own)))

    async def run(self, attempt: Attempt) -> None:
        workspace = attempt.workspace
        if workspace is None:
            raise UserError(
                f"{self.recipe.title} needs a sandbox, and the environment {attempt.task.environment.kind!r} has none"
            )
        home, toolbox = await home_of(workspace), attempt.toolbox
        values = self._values(await attempt.endpoint(), home, _inside(workspace, self._installed))
        servers, instruction = served_toolbox(self.recipe, toolbox, instruction_of(attempt.task))
        if self._browser is not None:
            servers, instruction = await self._give_browser(workspace, home, toolbox, instruction_of(attempt.task))
        files = {path: fill_template(text, values) for path, text in self.recipe.files.items()}
        for path, text in add_servers(files, self.recipe, servers).items():
            await workspace.write(f"{HOME}/{path}", text.encode(), mode=0o600)
        if toolbox.skills is not None and self.recipe.skills:
            await copy_skills(workspace, toolbox.skills, home, self.recipe)
        invocation = self._build_invocation(values, instruction, self.recipe.servers if servers else None)
        started = time.time()
        result = await workspace.exec(invocation.command, env=invocation.env, stdin=invocation.stdin)
        attempt.note(self._evidence(result, started, servers, toolbox))
        if result.exit_code in {126, 127} and result.duration_s < 5:
            raise AgentError(f"{self.recipe.title} did not start: {result.stderr.strip()[-500:] or result.exit_code}")
        attempt.finish(describe_exit(self.recipe.title, result))

    async def _give_browser(
        self, workspace: Workspace, home: str, toolbox: Toolbox, instruction: str
    ) -> tuple[tuple[ToolServer, ...], str]:
        """Writes the settings of the harness's own browser; returns its server in place of the world's, and the
        instruction with the address of the site. Raises `UserError` for a task without pages."""
        if toolbox.site is None or self._browser is None:
            raise UserError(
                f"browser={self._options.browser} of {self.recipe.title} needs a task with pages: take the families "
                "sites, or services or walks with interface=pages"
            )
        config = playwright_mcp.browser_config(toolbox.site, home)
        await workspace.write(f"{HOME}/{playwright_mcp.FOLDER}/config.json", config.encode(), mode=0o600)
        others = tuple(server for server in toolbox.servers if not server.url.startswith(toolbox.service_url))
        server = playwright_mcp.browser_server(self._browser, home)
        return (*others, server), instruction + playwright_mcp.browser_note(toolbox.site)

    def _values(self, endpoint: Endpoint, home: str, places: dict[str, str]) -> dict[str, str]:
        options = self._options
        values = {
            **places,
            "home": home,
            "url": endpoint.url,
            "openai": f"{endpoint.url}/v1",
            "key": endpoint.key,
            "model": plain_model(endpoint.model),
            "dialect": self._dialect,
            "context": str(options.context_tokens),
            "output": str(options.output_tokens),
        }
        chosen = next((named for name, named in self.recipe.by_dialect.items() if name == self._dialect), {})
        return {**values, **{name: fill_template(text, values) for name, text in chosen.items()}}

    def _build_invocation(
        self, values: dict[str, str], instruction: str, servers: ServerSettings | None
    ) -> _Invocation:
        recipe, options = self.recipe, self._options
        as_word = any("${instruction}" in word for word in (*recipe.command, *recipe.after))
        if as_word and len(instruction.encode()) > LONGEST_WORD:
            raise UserError(
                f"the instruction has {len(instruction.encode())} bytes, and {recipe.title} takes it as a word of its "
                f"command line, which holds {LONGEST_WORD}"
            )
        known = {**values, "instruction": instruction.replace("\0", "\ufffd")}
        words = [fill_template(word, known) for word in recipe.command]
        words += [fill_template(word, known) for word in recipe.lean] if options.lean else []
        words += [fill_template(word, known) for word in servers.words] if servers is not None else []
        words += [*options.arguments, *(fill_template(word, known) for word in recipe.after)]
        added = {} if servers is None else servers.env
        env = {name: fill_template(text, values) for name, text in (recipe.env | added).items()}
        stdin = b"" if as_word else instruction.encode()
        return _Invocation([word for word in words if word], {**env, **options.env}, stdin)

    def _evidence(
        self, result: ExecResult, started: float, servers: tuple[ToolServer, ...], toolbox: Toolbox
    ) -> Evidence:
        data: dict[str, Any] = {
            "harness": self.recipe.name,
            "version": self._installed.version,
            "packages": self._installed.digest,
            "dialect": self._dialect,
            "lean": self._options.lean,
            "exit_code": result.exit_code,
            "killed_by": result.killed_by,
            "duration_s": round(result.duration_s, 6),
        }
        if self._browser is not None:
            data["browser"] = {
                "name": self._browser.name,
                "version": self._browser.version,
                "packages": self._browser.digest,
            }
        if servers:
            data["servers"] = [server.name for server in servers]
        if toolbox.skills is not None:
            data["skills"] = bool(self.recipe.skills)
        return Evidence(id="harness", channel="audit", kind="harness", data=data, at=started)


async def home_of(workspace: Workspace) -> str:
    """Returns the home folder as seen by the program; without isolation, the host's path."""
    if workspace.isolation.name != "none":
        return HOME
    return (await workspace.exec(["/bin/sh", "-c", 'printf %s "$HOME"'])).stdout or HOME


def _inside(workspace: Workspace, installed: Installed) -> dict[str, str]:
    """Returns the program's locations: below their mounts, or on the host if nothing can be mounted."""
    return installed.places(mounted=workspace.isolation.name != "none")


def describe_exit(title: str, result: ExecResult) -> str:
    """Returns the reason of the program's end, for the record's `ended`."""
    if result.killed_by is not None:
        return f"{title} was killed: {result.killed_by}"
    return f"{title} ended with exit code {result.exit_code}"
