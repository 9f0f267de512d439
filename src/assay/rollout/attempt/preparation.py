"""From a task to the specification of its sandbox, once a task: image, tool layer, environment variables, limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import NoneType
from typing import Any

from assay.environments.interface import Backend, WorkspaceSpec
from assay.environments.workspace.images import BuildOptions, task_image
from assay.environments.workspace.spec import WorkspaceParameters, workspace_spec
from assay.environments.workspace.toolchain import ensure_toolchain
from assay.errors import UserError
from assay.records import Task, digest_record
from assay.rollout.config import RunConfig
from assay.settings import Settings
from assay.tasks import LoadedTask, resolve_task

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
        return await self._once(loaded.task.digest, lambda: self._prepare(loaded))

    async def _once(self, key: str, make: Callable[[], Coroutine[Any, Any, WorkspaceSpec]]) -> WorkspaceSpec:
        """What `make` gives, made once; after trouble that may pass it is made anew by whoever asks next."""
        known = self._made.get(key)
        if known is None or _may_pass(known):
            known = self._made[key] = asyncio.create_task(make())
        return await asyncio.shield(known)

    def resolved(self, task: Task) -> Task:
        """The task with its templates filled in from the variables that were passed; for acting, never for storing.

        Raises:
            UserError: A variable without default was not passed; the message names it.
        """
        try:
            return resolve_task(task, self._variables)
        except UserError as exc:
            raise UserError(f"{exc} (a run passes variables by name: --pass-env NAME)") from exc

    async def separate(self, loaded: LoadedTask, task: Task) -> WorkspaceSpec | None:
        """The verifier's own sandbox, where the task gives it an environment of its own; else None.

        Raises:
            UserError: As `spec`.
        """
        own = next((c.parameters["environment"] for c in task.checks if c.parameters.get("environment")), None)
        if own is None:
            return None
        return await self._once(digest_record([task.digest, own]), lambda: self._make(own, loaded))

    async def _prepare(self, loaded: LoadedTask) -> WorkspaceSpec:
        given = self.resolved(loaded.task).environment.parameters
        _refuse_a_step_without_network(loaded, given)
        return await self._make(given, loaded)

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
        return workspace_spec(
            known,
            image=image,
            toolchain=toolchain,
            allow_network=self._config.allow_network,
            accept_whole_network=self._config.accept_whole_network,
        )


def requirements_of(loaded: LoadedTask) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Pinned requirements of a task's tool layer, and the distributions that must not be in it."""
    given = loaded.task.environment.parameters
    pinned = (*(given.get("layers") or ()), *(given.get("requirements") or ()))
    masked = tuple(given.get("masked_packages") or ())
    return tuple(dict.fromkeys(pinned)), masked


def _may_pass(made: asyncio.Task[WorkspaceSpec]) -> bool:
    """Whether making it failed for a cause that does not lie in the task or the configuration."""
    return made.done() and (made.cancelled() or not isinstance(made.exception(), UserError | NoneType))


def _refuse_a_step_without_network(loaded: LoadedTask, given: dict[str, Any]) -> None:
    """One sandbox serves all steps: it cannot have a network for one and none for another."""
    if given.get("network_mode", "no-network") == "no-network":
        return
    for step in loaded.steps:
        if step.name and step.network.get("network_mode") == "no-network":
            raise UserError(
                f"task {loaded.task.id!r} has network_mode {given['network_mode']!r} and its step {step.name!r} "
                "'no-network': one sandbox serves all steps, so write the same for all of them"
            )


def _refuse_devices(task: str, given: dict[str, Any]) -> None:
    if given.get("gpus") or given.get("tpu"):
        raise UserError(f"task {task!r} asks for an accelerator (gpus or tpu): local sandboxes have none")
