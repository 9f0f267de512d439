"""Adapters that open worlds and workspaces for comparison and render their observations and states as text."""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Protocol

import msgspec

from assay.environments.hooks import Collects
from assay.environments.interface import Tools, Workspace, WorkspaceSpec, World
from assay.environments.tools import WorkspaceTools
from assay.environments.worlds.opening import open_world, world_kind
from assay.errors import TaskError, boundary
from assay.records import Observation, canonical_bytes
from assay.rollout.attempt.preparation import Preparer
from assay.tasks import LoadedTask

from ._comparison_actions import ComparisonAction

LIST = "find . -type f -not -path './.git/*' -exec sha256sum {} + 2>/dev/null | sort -k 2 | head -n 20000"
_SHOWN = 2_000


class ActionResult(NamedTuple):
    """Observation and state after one action, with volatile text masked."""

    observation: str
    state: str


class OpenEnvironment(Protocol):
    tools: Tools

    async def state(self) -> str:
        """Returns the state as canonical text."""

    async def facts(self) -> dict[str, Any] | None:
        """Returns the facts that checks judge; None for a workspace."""

    async def close(self) -> None:
        """Closes the environment."""


class ComparisonSide(Protocol):
    """Opens environments of one task."""

    loaded: LoadedTask

    async def open(self) -> OpenEnvironment:
        """Opens a fresh environment. Raises `TaskError`, `UserError` or `EnvironmentFailure`."""

    async def read_declarations(self) -> dict[str, str]:
        """Returns declarations beyond the task record: name to canonical text."""


def mask_volatile(text: str, volatile: tuple[re.Pattern[str], ...]) -> str:
    """Replaces volatile text with `<volatile>`."""
    for pattern in volatile:
        text = pattern.sub("<volatile>", text)
    return text


async def perform_action(
    environment: OpenEnvironment, action: ComparisonAction, volatile: tuple[re.Pattern[str], ...]
) -> ActionResult:
    """Performs one action. An exception of the environment becomes an observation that names its type."""
    try:
        with boundary(TaskError, "the environment raised"):
            seen = await environment.tools.call(action.tool, action.arguments)
    except TaskError as exc:
        text = f"raised {type(exc.__cause__).__name__}"
    else:
        text = _render_observation(seen)
    return ActionResult(mask_volatile(text, volatile), mask_volatile(await environment.state(), volatile))


def _render_observation(seen: Observation) -> str:
    """Renders an observation without its duration and storage references."""
    fields = {"content": seen.content, "error": seen.error, "exit_code": seen.exit_code, "stderr": seen.stderr}
    return canonical_bytes({**fields, "timed_out": seen.timed_out}).decode()


class WorldSide:
    def __init__(self, loaded: LoadedTask) -> None:
        self.loaded = loaded
        self._kind = world_kind(loaded.task.environment.kind)

    async def open(self) -> OpenEnvironment:
        spec = self.loaded.task.environment
        with boundary(TaskError, f"making the environment {spec.kind!r} of task {self.loaded.task.id!r}"):
            world: World = open_world(spec, self._kind)
        return _OpenWorld(world)

    async def read_declarations(self) -> dict[str, str]:
        """Returns tools and the first state."""
        environment = await self.open()
        try:
            return {**_tools(environment.tools), "first state": await environment.state()}
        finally:
            await environment.close()


class _OpenWorld:
    def __init__(self, world: World) -> None:
        self.tools: Tools = world
        self._world = world

    async def state(self) -> str:
        # Not the digest: two implementations may digest the same world in their own ways.
        collected = self._world.collect() if isinstance(self._world, Collects) else None
        return canonical_bytes({"facts": self._world.facts(), "collected": collected}).decode()

    async def facts(self) -> dict[str, Any] | None:
        return self._world.facts()

    async def close(self) -> None:
        await self._world.close()


class WorkspaceSide:
    def __init__(self, loaded: LoadedTask, preparer: Preparer) -> None:
        self.loaded = loaded
        self._preparer = preparer

    async def open(self) -> OpenEnvironment:
        spec = await self._preparer.spec(self.loaded)
        return _OpenWorkspace(await self._preparer.backend.open(spec))

    async def read_declarations(self) -> dict[str, str]:
        """Returns sandbox settings, tools and the digests of the files in the working folder."""
        spec = await self._preparer.spec(self.loaded)
        workspace = await self._preparer.backend.open(spec)
        try:
            listed = await workspace.exec(LIST, timeout_s=120.0, show_bytes=4 * 1024 * 1024)
        finally:
            await workspace.close()
        return {**_sandbox(spec), **_tools(WorkspaceTools(workspace)), **_files(listed.stdout)}


def _sandbox(spec: WorkspaceSpec) -> dict[str, str]:
    declared = {
        "workdir": spec.workdir,
        "network": spec.network,
        "user": spec.user,
        "variables": dict(sorted(spec.env.items())),
    }
    limits = {f"limit {name}": value for name, value in msgspec.structs.asdict(spec.limits).items()}
    return {name: canonical_bytes(value).decode() for name, value in {**declared, **limits}.items()}


def _tools(tools: Tools) -> dict[str, str]:
    return {
        f"tool {spec.name}": canonical_bytes([spec.description, spec.parameters]).decode() for spec in tools.specs()
    }


def _files(listing: str) -> dict[str, str]:
    pairs = (line.partition("  ") for line in listing.splitlines())
    return {f"file {path}": digest for digest, _, path in pairs if path}


class _OpenWorkspace:
    def __init__(self, workspace: Workspace) -> None:
        self.tools: Tools = WorkspaceTools(workspace)
        self._workspace = workspace

    async def state(self) -> str:
        # Not the digest, which covers the image: what changed is compared, path by path.
        changes = await self._workspace.diff()
        return "\n".join(f"{c.kind} {c.type} {c.path} {c.mode} {c.digest}" for c in changes)

    async def facts(self) -> dict[str, Any] | None:
        return None

    async def close(self) -> None:
        await self._workspace.close()


def truncate_text(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... {len(text) - _SHOWN} more characters"
