"""From a task to the specification of its sandbox, once a task: image, tool layer, environment variables, limits."""

from __future__ import annotations

import asyncio
from typing import Any

from assay.environments.interface import Backend, WorkspaceSpec
from assay.environments.workspace.images import BuildOptions, task_image
from assay.environments.workspace.spec import WorkspaceParameters, workspace_spec
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.errors import UserError
from assay.records import Task, digest_record
from assay.settings import Settings
from assay.tasks import LoadedTask, resolve_task

from .config import RunConfig

__all__ = ["Preparer", "requirements_of"]


class Preparer:
    """Prepares each task once, however many attempts ask for it at once."""

    def __init__(self, backend: Backend, config: RunConfig, settings: Settings) -> None:
        self.backend = backend
        self._config = config
        self._settings = settings
        self._variables = settings.named(config.pass_env)
        self._made: dict[str, asyncio.Task[WorkspaceSpec]] = {}

    async def spec(self, loaded: LoadedTask) -> WorkspaceSpec:
        """The agent's sandbox for a task.

        Raises:
            UserError: The task asks for something that is not to be had here; the message says what and how.
            EnvironmentFailure: The sandbox that builds its image broke.
        """
        key = loaded.task.digest
        if key not in self._made:
            self._made[key] = asyncio.create_task(self._prepare(loaded))
        return await asyncio.shield(self._made[key])

    def resolved(self, task: Task) -> Task:
        """The task with its templates filled in from the variables that were passed; for acting, never for storing.

        Raises:
            UserError: A variable without default was not passed; the message names it.
        """
        try:
            return resolve_task(task, self._variables)
        except UserError as exc:
            message = f"{exc} (a run passes variables by name: --pass-env NAME)"
            raise UserError(message) from exc

    async def separate(self, loaded: LoadedTask, task: Task) -> WorkspaceSpec | None:
        """The verifier's own sandbox, where the task gives it an environment of its own; else None.

        Raises:
            UserError: As `spec`.
        """
        own = next((c.parameters["environment"] for c in task.checks if c.parameters.get("environment")), None)
        if own is None:
            return None
        key = digest_record([task.digest, own])
        if key not in self._made:
            self._made[key] = asyncio.create_task(self._make(own, loaded))
        return await asyncio.shield(self._made[key])

    async def _prepare(self, loaded: LoadedTask) -> WorkspaceSpec:
        return await self._make(self.resolved(loaded.task).environment.parameters, loaded)

    async def _make(self, given: dict[str, Any], loaded: LoadedTask) -> WorkspaceSpec:
        _refuse_devices(loaded.task.id, given)
        layers, masked = requirements_of(loaded)
        toolchain = await asyncio.to_thread(ensure_toolchain, self._settings.cache, layers, masked=masked)
        options = BuildOptions(
            cache=self._settings.cache,
            toolchain=toolchain,
            bases=self._config.base,
            allow_network=self._config.allow_network,
            timeout_s=float(given.get("build_timeout_s") or 600.0),
        )
        image = await task_image(given, loaded.folder, options, backend=self.backend)
        known = {k: v for k, v in given.items() if k in WorkspaceParameters.__struct_fields__}
        known["layers"] = layers
        return workspace_spec(known, image=image, toolchain=toolchain, allow_network=self._config.allow_network)


def requirements_of(loaded: LoadedTask) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Pinned requirements of a task's tool layer, and the distributions that must not be in it."""
    given = loaded.task.environment.parameters
    pinned = (*(given.get("layers") or ()), *(given.get("requirements") or ()))
    masked = tuple(given.get("masked_packages") or ())
    return tuple(dict.fromkeys(pinned)), masked


def _refuse_devices(task: str, given: dict[str, Any]) -> None:
    if given.get("gpus") or given.get("tpu"):
        message = f"task {task!r} asks for an accelerator (gpus or tpu): local sandboxes have none"
        raise UserError(message)
