"""What an agent is: anything that acts on an attempt.

An agent gets an `Attempt`: the task, a place to act, a model if it asked for one, a seed, and the record. It returns
when it is done; the loop around it holds the limits, records, stops what it left behind, and judges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from assay.environments.interface import ExecResult, Mount, Tools, Workspace, WorkspaceSpec
from assay.gateway.interface import ModelReply, ModelRequest
from assay.records import Evidence, Observation, Step, Task, ToolCall

__all__ = [
    "FORK_SHELL",
    "Agent",
    "Attempt",
    "BaselineAgent",
    "Endpoint",
    "Needs",
    "PlacedAgent",
    "Prior",
    "SolutionAgent",
    "attempts_task",
    "sandbox_spec",
    "takes_solution",
]

FORK_SHELL = "shell in a fork"
"""The tool call of a step that ran in a fork: no part of what is judged, and not done again by a replay."""


class Endpoint(NamedTuple):
    """Where programs inside the sandbox ask the run's model, whatever API they speak."""

    url: str
    """`http://127.0.0.1:PORT/s/ID`, valid inside the sandbox alone. Without `/v1`: what `ANTHROPIC_BASE_URL` and
    `GOOGLE_GEMINI_BASE_URL` take; OpenAI clients want `url + "/v1"`."""
    key: str
    """Opens this attempt's session and nothing else; dead when the attempt ends."""
    model: str
    """The model's name in the record. A client may ask for any name; the run's model answers."""


def _no_blob(digest: str) -> bytes:
    raise KeyError(f"no bytes are kept here, those of {digest} neither")


def _no_tree(listing: str, target: Path) -> None:
    raise KeyError(f"no folders are kept here, {listing} for {target.name} neither")


class Prior(NamedTuple):
    """What a recorded attempt did: its steps, and between them what it did beside them, as evidence."""

    acts: tuple[Step | Evidence, ...] = ()
    """In order. Evidence is of what was brought in or run through `Attempt.workspace`, marked `beside`."""
    blob: Callable[[str], bytes] = _no_blob
    """The kept bytes of a content address. Raises `StoreError` where they are gone."""
    tree: Callable[[str, Path], None] = _no_tree
    """Writes the kept folder or file of a listing to a path where nothing is yet. Raises as `blob`."""
    until: int | None = None
    """How many of the steps are done again; None is all."""


class Attempt(Protocol):
    """What an agent may use. Every method that acts raises `LimitReached` when a limit is met; let it pass."""

    task: Task
    seed: int
    """The only source of randomness an agent may use."""
    workspace: Workspace | None
    """The sandbox, already recorded: each exec through it lands in the audit channel. None for in-process worlds."""
    tools: Tools
    """The same place as tools for a model (shell, read, edit), or the in-process world's own."""
    solution: Path | None
    """The task's solution folder on the host, for a `SolutionAgent` that takes it; None for every other agent."""
    ended: str | None
    """Why the attempt is over, in words: the world came to its end, or `finish` was called. None: it goes on. An agent
    looks at it after each act; what it does after the end of the world is answered with errors."""
    prior: Prior | None
    """What is to be done again, for the replay agent alone; None for every other agent."""

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
            message: What the agent says of it.
            timeout_s: As in `Session.exec`.
            fork: Where to run it instead of the workspace: a fork of it (`workspace.fork()`), to try what shall leave
                no trace. The step's state is the workspace's own all the same.
            env: Variables for this command alone; their names are recorded, their values are not.
        """
        ...

    async def act(
        self,
        calls: Sequence[ToolCall],
        *,
        message: str | None = None,
        reasoning: str | None = None,
        call: str | None = None,
    ) -> tuple[Observation, ...]:
        """Executes tool calls in order as one recorded step. A malformed call (`error` set) is answered with an
        error observation and executed not at all."""
        ...

    def say(self, message: str, *, reasoning: str | None = None, call: str | None = None) -> None:
        """Records a step without an act."""
        ...

    def note(self, evidence: Evidence) -> None:
        """Adds a fact that the agent itself established (channel and kind set by the agent)."""
        ...

    async def ask(self, request: ModelRequest) -> tuple[str, ModelReply]:
        """Asks the model; the exchange is recorded, its tokens and cost are charged to the limits.

        Returns:
            The id of the recorded call, and the reply.

        Raises:
            UserError: The run names no model.
            ProviderError: The server failed for good.
            LimitReached: Tokens or cost are spent.
        """
        ...

    async def endpoint(self) -> Endpoint:
        """Opens the model to programs inside the sandbox; what they ask is recorded and charged as `ask` is.

        Asked again it gives the same one. It ends with the attempt.

        Raises:
            UserError: The run names no model, or the environment has no sandbox.
        """
        ...

    def finish(self, message: str) -> None:
        """Says that the agent is done, in words; recorded as `ended`."""
        ...


@runtime_checkable
class Agent(Protocol):
    """Acts. One object serves many attempts at once: keep nothing of an attempt on it.

    Built as `Agent(**options)` with the options of `--agent-option key=value`; an unknown option raises `TypeError`,
    which the loop turns into a `UserError` that lists the known ones.
    """

    name: str
    needs_model: bool

    async def run(self, attempt: Attempt) -> None:
        """Acts until done. Exceptions other than `AssayError` are recorded as `broke: agent`."""
        ...


class Needs(msgspec.Struct, frozen=True):
    """What an agent's programs need of the sandbox: each limit that the task sets is raised to at least this."""

    memory_mib: int = 0
    processes: int = 0
    open_files: int = 0
    tmp_mib: int = 0
    """Also the size of each of `tmpfs`."""
    tmpfs: tuple[str, ...] = ()
    """Folders for the programs' own files (settings, logs): they start empty and are no part of the state."""


def takes_solution(agent: Agent) -> bool:
    """Returns whether an agent is given the task's reference solution: it says so by `takes_solution = True`."""
    return isinstance(agent, SolutionAgent) and agent.takes_solution


def attempts_task(agent: Agent) -> bool:
    """Returns whether an agent tries to do the task by itself: a baseline says otherwise by `attempts_task = False`."""
    return not isinstance(agent, BaselineAgent) or agent.attempts_task


@runtime_checkable
class BaselineAgent(Agent, Protocol):
    """An agent that says whether it tries to do the task by itself: a reference solution, doing nothing, a replay and a
    cheat do not, and their rates say nothing about the task's difficulty."""

    attempts_task: bool


@runtime_checkable
class SolutionAgent(Agent, Protocol):
    """An agent that may be given the task's reference solution (`Attempt.solution`)."""

    takes_solution: bool


@runtime_checkable
class PlacedAgent(Agent, Protocol):
    """An agent whose programs run inside the sandbox, which is opened on `sandbox_spec(spec, agent)`."""

    mounts: tuple[Mount, ...]
    """Host folders that the programs are in, read-only inside."""
    needs: Needs


def sandbox_spec(spec: WorkspaceSpec, agent: Agent) -> WorkspaceSpec:
    """The agent's sandbox: the task's, and what the agent's own programs need. A judge's fork needs none of it."""
    if not isinstance(agent, PlacedAgent):
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
