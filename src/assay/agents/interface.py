"""Interface of agents and attempts.

An agent gets an `Attempt`: task, environment, optional model, seed and record. It returns when it is done; the loop
around it enforces limits, records, stops remaining processes and judges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeGuard, runtime_checkable

import msgspec

from assay.environments.interface import ExecResult, Mount, Tools, Workspace, WorkspaceSpec
from assay.gateway.interface import ModelReply, ModelRequest
from assay.records import Evidence, Observation, Step, Task, ToolCall

if TYPE_CHECKING:
    from .branches import Branches
    from .teams.interface import TeamSeats

FORK_SHELL = "shell in a fork"
"""Tool call of a step that ran in a fork: not judged, and not repeated by a replay."""


class Endpoint(NamedTuple):
    """Endpoint of the run's model for programs inside the sandbox."""

    url: str
    """`http://127.0.0.1:PORT/s/ID`, valid inside the sandbox alone. Without `/v1`: what `ANTHROPIC_BASE_URL` and
    `GOOGLE_GEMINI_BASE_URL` take; OpenAI clients want `url + "/v1"`."""
    key: str
    """Key of this attempt's session; invalid once the attempt ends."""
    model: str
    """Recorded model name. Clients may request any name; the run's model answers."""


class ToolServer(msgspec.Struct, frozen=True):
    """An MCP server for programs in the sandbox."""

    name: str
    """Letters, digits, `_` and `-`; unique in an attempt."""
    transport: Literal["http", "sse", "stdio"]
    url: str = ""
    """For `http` (streamable HTTP) and `sse`, as the sandbox reaches it."""
    command: tuple[str, ...] = ()
    """For `stdio`: what the program starts, inside the sandbox."""
    headers: dict[str, str] = {}
    """For `http` and `sse`; may hold credentials, and is never recorded."""


class SiteAddress(msgspec.Struct, frozen=True):
    """Site of the attempt, for a browser inside the sandbox."""

    url: str
    """Address of its start page, such as `http://shop.test/`."""
    host: str
    """Host of the address, which no name server knows."""
    address: str
    """`127.0.0.1:PORT`, where requests for that host are answered inside the sandbox."""


class Toolbox(msgspec.Struct, frozen=True):
    """Tool servers and skills for programs in the sandbox."""

    servers: tuple[ToolServer, ...] = ()
    """MCP servers: the world's own, and those that the task names."""
    service_url: str = ""
    """HTTP address of the world inside the sandbox, which the command `service` uses too; empty without a world."""
    site: SiteAddress | None = None
    """Pages of the world; None for a world without pages."""
    skills: str | None = None
    """Folder of skills inside the sandbox, one folder a skill; None without."""


def _no_blob(digest: str) -> bytes:
    raise KeyError(f"no bytes are kept here, those of {digest} neither")


def _no_tree(listing: str, target: Path) -> None:
    raise KeyError(f"no folders are kept here, {listing} for {target.name} neither")


class Prior(NamedTuple):
    """Recorded attempt to repeat: its steps, and the actions between them, as evidence."""

    acts: tuple[Step | Evidence, ...] = ()
    """Steps and evidence in order; evidence is of uploads and executions through `Attempt.workspace`, marked
    `beside`."""
    blob: Callable[[str], bytes] = _no_blob
    """Returns the stored bytes of a content address. Raises `StoreError` if they are missing."""
    tree: Callable[[str, Path], None] = _no_tree
    """Writes the stored folder or file of a listing to an empty path. Raises as `blob`."""
    until: int | None = None
    """Number of steps to repeat; None for all."""


class Attempt(Protocol):
    """Attempt as seen by its agent. Every acting method raises `LimitReached` at a limit; let it pass."""

    task: Task
    seed: int
    """The only permitted source of randomness."""
    workspace: Workspace | None
    """Recorded sandbox: each exec lands in the audit channel. None for in-process worlds, unless the agent's programs
    need a sandbox (`needs_sandbox`): the world is then served inside it (`toolbox`), and the state excludes it."""
    tools: Tools
    """Tools for a model: the sandbox's (shell, read, edit), or the in-process world's own."""
    toolbox: Toolbox
    """Tool servers and skills for programs in the sandbox; empty without a sandbox."""
    solution: Path | None
    """The task's solution folder on the host, for an agent that takes it (`takes_solution`); otherwise None."""
    ended: str | None
    """Reason why the attempt is over: the world ended, or `finish` was called; None while it continues. Agents check it
    after each act; acts after the world's end get errors."""
    prior: Prior | None
    """Recorded attempt to repeat, for replay agents; otherwise None."""
    branches: Branches | None
    """Further tries at the task, for an agent that declares `uses_branches = True`; otherwise None."""
    team: TeamSeats | None
    """Seats of its actors, for an agent that declares a `team`; otherwise None."""

    async def shell(
        self,
        command: str | Sequence[str],
        *,
        message: str | None = None,
        timeout_s: float | None = None,
        fork: Workspace | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Runs a command as one recorded step of the agent (tool call, observation, state digest).

        Args:
            command: As in `Session.exec`.
            message: The agent's message.
            timeout_s: As in `Session.exec`.
            fork: Fork of the workspace (`workspace.fork()`) to run it in, to leave no trace. The step's state is still
                the
                workspace's.
            env: Variables for this command alone; their names are recorded, their values are not.
        """

    async def act(
        self,
        calls: Sequence[ToolCall],
        *,
        message: str | None = None,
        reasoning: str | None = None,
        call: str | None = None,
    ) -> tuple[Observation, ...]:
        """Executes tool calls in order as one recorded step. A malformed call (`error` set) is answered with an error
        observation and not executed."""

    def say(self, message: str, *, reasoning: str | None = None, call: str | None = None) -> None:
        """Records a step without an act."""

    def note(self, evidence: Evidence) -> None:
        """Adds a fact established by the agent (it sets channel and kind)."""

    async def ask(self, request: ModelRequest) -> tuple[str, ModelReply]:
        """Queries the model; the exchange is recorded, its tokens and cost are charged to the limits.

        Returns:
            The id of the recorded call, and the reply.

        Raises:
            UserError: The run names no model.
            ProviderError: The server failed permanently.
            LimitReached: Tokens or cost are spent.
        """

    async def endpoint(self) -> Endpoint:
        """Opens the model to programs inside the sandbox, recorded and charged as `ask` is, until the attempt ends.

        Further calls return the same endpoint.

        Raises:
            UserError: The run names no model, or the environment has no sandbox.
        """

    def finish(self, message: str) -> None:
        """Declares that the agent is done; recorded as `ended`."""


class ForwardingAttempt:
    """An attempt as an agent sees it through another one: a subclass defines what differs, and everything else is the
    inner attempt's. Attributes are read from it, never set."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._attempt, name)


@runtime_checkable
class Agent(Protocol):
    """Agent. One object serves many concurrent attempts: keep no state of an attempt on it.

    Built as `Agent(**options)` with the options of `--agent-option key=value`; an unknown option raises `TypeError`,
    which the loop turns into a `UserError` that lists the known ones.
    """

    name: str
    needs_model: bool

    async def run(self, attempt: Attempt) -> None:
        """Acts until done. Exceptions other than `AssayError` are recorded as `broke: agent`."""


class Needs(msgspec.Struct, frozen=True):
    """Minimum sandbox resources of an agent's programs; the task's lower limits are raised to them."""

    memory_mib: int = 0
    processes: int = 0
    open_files: int = 0
    tmp_mib: int = 0
    """Also the size of each of `tmpfs`."""
    tmpfs: tuple[str, ...] = ()
    """Folders for the programs' settings and logs: they start empty and are excluded from the state."""


def takes_solution(agent: Agent) -> bool:
    """Returns whether an agent declares `takes_solution = True` and so is given the reference solution."""
    return bool(getattr(agent, "takes_solution", False))


def takes_advice(agent: Agent) -> bool:
    """Returns whether an agent declares `takes_advice = True` and so may ask its world what the verifier knows."""
    return bool(getattr(agent, "takes_advice", False))


def attempts_task(agent: Agent) -> bool:
    """Returns whether an agent tries to do the task. A baseline declares `attempts_task = False`: a reference solution,
    a null agent, a replay and a cheat, whose rates say nothing about difficulty."""
    return bool(getattr(agent, "attempts_task", True))


class PlacedAgent(Agent, Protocol):
    """An agent whose programs run inside the sandbox, which is opened on `sandbox_spec(spec, agent)`."""

    mounts: tuple[Mount, ...]
    """Returns host folders of the programs, mounted read-only."""
    needs: Needs


def is_placed(agent: Agent) -> TypeGuard[PlacedAgent]:
    """Returns whether an agent declares what its programs need. `isinstance` takes 50 microseconds on Python 3.11."""
    return hasattr(agent, "mounts") and hasattr(agent, "needs")


def needs_sandbox(agent: Agent) -> bool:
    """Returns whether an agent has programs that run inside a sandbox."""
    return is_placed(agent) and (bool(agent.mounts) or agent.needs != Needs())


def sandbox_spec(spec: WorkspaceSpec, agent: Agent) -> WorkspaceSpec:
    """Returns the task's sandbox with the agent's requirements. A judge's fork needs none of them."""
    if not is_placed(agent):
        return spec
    wanted = {name: getattr(agent.needs, name) for name in ("memory_mib", "processes", "open_files", "tmp_mib")}
    raised = {
        name: max(present, wanted[name])
        for name in wanted
        if (present := getattr(spec.limits, name)) is not None  # None is no limit
    }
    return msgspec.structs.replace(
        spec,
        limits=msgspec.structs.replace(spec.limits, **raised),
        mounts=(*spec.mounts, *agent.mounts),
        tmpfs=tuple(dict.fromkeys((*spec.tmpfs, *agent.needs.tmpfs))),
    )
