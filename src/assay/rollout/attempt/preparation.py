"""Prepares each task's sandbox specification once: image, tool layer, environment variables, limits."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from assay.agents.interface import Toolbox, ToolServer
from assay.environments.interface import Backend, WorkspaceSpec
from assay.environments.worlds.opening import SANDBOX
from assay.errors import UserError
from assay.records import Task, digest_bytes, digest_record
from assay.rollout.config import RunConfig
from assay.settings import Settings
from assay.tasks import LoadedTask, resolve_headers, resolve_task
from assay.tasks.harbor_config import McpServer

if TYPE_CHECKING:
    from assay.environments.workspace.layer_exchange import LayerExchange
    from assay.environments.workspace.layer_use import LayerPins
    from assay.environments.workspace.toolchain import ToolLayer

    _Make = Callable[[LayerPins], Coroutine[Any, Any, WorkspaceSpec]]

_TRANSPORTS: Final[dict[str, Literal["http", "sse", "stdio"]]] = {
    "stdio": "stdio",
    "sse": "sse",
    "streamable-http": "http",
}
MOST_DOCKERFILE = 1 << 20
"""Bytes of a Dockerfile that is read to place attempts."""
_UNPLAIN: Final = re.compile(r"[^A-Za-z0-9_-]+")
_log = logging.getLogger(__name__)


class _Preparation(NamedTuple):
    """A specification that is made or there, and the pins of its layers."""

    pins: LayerPins
    making: asyncio.Task[WorkspaceSpec]


class Preparer:
    """Prepares each task once for any number of concurrent attempts."""

    def __init__(
        self, backend: Backend, config: RunConfig, settings: Settings, exchange: LayerExchange | None = None
    ) -> None:
        """Creates the preparer; `exchange` has layers of other machines."""
        self.backend, self._exchange = backend, exchange
        self._config = config
        self._settings = settings
        self._variables = settings.named(config.pass_env)
        self._specs: dict[str, _Preparation] = {}
        self._users: Counter[str] = Counter()
        """Number of callers that may use what was prepared, by owner: the digest of a task or of a world's sandbox."""
        self._keys: dict[str, set[str]] = {}
        """The specifications of each owner."""

    async def spec(self, loaded: LoadedTask) -> WorkspaceSpec:
        """Returns the specification of the agent's sandbox. Its layers stay in the cache until `release` was called as
        often as this, or the preparer is closed.

        Raises:
            UserError: The task needs something that is unavailable here; the message names it and the remedy.
            EnvironmentFailure: The sandbox that builds the image broke.
        """
        return await self._acquire(loaded.task.digest, lambda pins: self._prepare(loaded, pins))

    async def _acquire(self, owner: str, make: _Make) -> WorkspaceSpec:
        self._users[owner] += 1
        try:
            return await self._once(owner, owner, make)
        except BaseException:
            self._release(owner)
            raise

    def release(self, loaded: LoadedTask) -> None:
        """Ends one use of a task's layers, its verifier's own included, which `spec` began."""
        self._release(loaded.task.digest)

    def release_world(self, loaded: LoadedTask) -> None:
        """Ends one use of layers that `world_spec` began."""
        self._release(_world_key(loaded))

    def _release(self, owner: str) -> None:
        self._users[owner] -= 1
        if self._users[owner] <= 0:
            del self._users[owner]
            for key in self._keys.get(owner, ()):
                self._specs[key].pins.close()

    def close(self) -> None:
        """Lets the layers of all tasks be removed."""
        for one in self._specs.values():
            one.pins.close()

    async def _once(self, owner: str, key: str, make: _Make) -> WorkspaceSpec:
        """Runs `make` once per key; again after a retryable failure, and where a layer was removed meanwhile."""
        known = self._specs.get(key)
        if known is None or _is_retryable(known.making) or (known.making.done() and not known.pins.renew()):
            from assay.environments.workspace.layer_use import LayerPins

            pins = LayerPins()
            known = self._specs[key] = _Preparation(pins, asyncio.create_task(make(pins)))
            self._keys.setdefault(owner, set()).add(key)
        return await asyncio.shield(known.making)

    def resolved(self, task: Task) -> Task:
        """Returns the task with its templates filled in from the passed variables. Never stored.

        Raises:
            UserError: A variable without a default was not passed; the message names it.
        """
        try:
            return resolve_task(task, self._variables)
        except UserError as exc:
            raise UserError(f"{exc} (a run passes variables by name: --pass-env NAME)") from exc

    def toolbox(self, loaded: LoadedTask) -> Toolbox:
        """Returns the tool servers and skills that a task names.

        Raises:
            UserError: A server of a generated task is incomplete, or a header names a variable that was not passed.
        """
        parameters = loaded.task.environment.parameters
        servers: list[ToolServer] = []
        for given in _given_servers(loaded.task):
            where = f"environment.mcp_servers.{given.name}.headers"
            servers.append(
                ToolServer(
                    name=_plain_name(given.name, {server.name for server in servers}),
                    transport=_TRANSPORTS[given.transport],
                    url=given.url or "",
                    command=(given.command, *given.args) if given.command else (),
                    headers=resolve_headers(given.headers, self._variables, where=where),
                )
            )
        return Toolbox(tuple(servers), skills=parameters.get("skills_dir"))

    async def separate(self, loaded: LoadedTask, task: Task) -> WorkspaceSpec | None:
        """Returns the verifier's own sandbox specification; None if the task defines no separate environment.

        Raises:
            UserError: As for `spec`.
        """
        own = next((c.parameters["environment"] for c in task.checks if c.parameters.get("environment")), None)
        if own is None:
            return None
        key = digest_record([task.digest, own])
        return await self._once(loaded.task.digest, key, lambda pins: self._make(own, loaded, pins))

    async def world_spec(self, loaded: LoadedTask) -> WorkspaceSpec:
        """Returns the specification of the sandbox in which programs act on a task's world; its layers stay as those of
        `spec`.

        Raises:
            UserError: As for `spec`.
            EnvironmentFailure: As for `spec`.
        """
        from assay.environments.workspace.spec import workspace_parameters

        parameters = loaded.task.environment.parameters.get(SANDBOX) or {}
        if not isinstance(parameters, dict):
            raise UserError(f"task {loaded.task.id!r}: the parameter {SANDBOX!r} must hold the parameters of a sandbox")
        checked = {name: value for name, value in parameters.items() if name not in ("folder", "docker_image")}
        workspace_parameters(checked)
        return await self._acquire(_world_key(loaded), lambda pins: self._make(parameters, loaded, pins))

    async def _prepare(self, loaded: LoadedTask, pins: LayerPins) -> WorkspaceSpec:
        parameters = self.resolved(loaded.task).environment.parameters
        _refuse_mixed_networks(loaded, parameters)
        return await self._make(parameters, loaded, pins)

    async def _make(self, parameters: dict[str, Any], loaded: LoadedTask, pins: LayerPins) -> WorkspaceSpec:
        # late, as below: an in-process world needs no sandbox
        from assay.environments.workspace.images import BuildOptions, build_task_image
        from assay.environments.workspace.spec import WorkspaceParameters, workspace_spec

        _refuse_unmet_needs(loaded, parameters, self.backend.name)
        layers, masked = requirements_of(loaded)
        toolchain = await self._tool_layer(layers, masked, pins)
        options = BuildOptions(
            cache=self._settings.cache,
            toolchain=toolchain,
            bases=self._config.base,
            allow_network=self._config.allow_network,
            timeout_s=float(parameters.get("build_timeout_s") or 600.0),
            exchange=self._exchange,
            pins=pins,
        )
        image = await build_task_image(parameters, loaded.folder, options, backend=self.backend)
        if self._exchange is not None:
            self._exchange.prepared(layer_demands(loaded), [Path(one) for one in (toolchain.path, *image.layers)])
        await self._bound_cache()
        known = {k: v for k, v in parameters.items() if k in WorkspaceParameters.__struct_fields__}
        known["layers"] = layers
        return workspace_spec(
            known,
            image=image,
            toolchain=toolchain,
            allow_network=self._config.allow_network,
            accept_whole_network=self._config.accept_whole_network,
        )

    async def _bound_cache(self) -> None:
        """Removes layers that are not in use, the least recently used first, while the cache is above its limit."""
        most_gib = self._settings.cache_gib
        if most_gib is None:
            return
        from assay.environments.workspace.layer_use import clean_layers

        try:
            report = await asyncio.to_thread(clean_layers, self._settings.cache, int(most_gib * 2**30))
        except OSError as exc:
            _log.warning("the cache %s cannot be cleaned: %s", self._settings.cache, exc)
            return
        if report.removed:
            _log.info("%d layers (%d bytes) were removed from the cache", len(report.removed), report.bytes_freed)

    async def _tool_layer(self, packages: tuple[str, ...], masked: tuple[str, ...], pins: LayerPins) -> ToolLayer:
        from assay.environments.workspace.layer_exchange import LayerRecipe
        from assay.environments.workspace.toolchain import ensure_toolchain, recipe_name

        cache, exchange = self._settings.cache, self._exchange
        if exchange is None:
            return await asyncio.to_thread(ensure_toolchain, cache, packages, masked=masked, pins=pins)
        recipe = LayerRecipe("tools", await asyncio.to_thread(recipe_name, packages, masked=masked))
        await exchange.fetch(recipe)
        layer = await asyncio.to_thread(ensure_toolchain, cache, packages, masked=masked, pins=pins)
        await exchange.offer(recipe)
        return layer


def _world_key(loaded: LoadedTask) -> str:
    return digest_record([SANDBOX, loaded.task.environment.parameters.get(SANDBOX) or {}])


def layer_demands(loaded: LoadedTask) -> frozenset[str]:
    """Returns names of the layers that a task demands, which are the same on each machine: digests of its requirements,
    and of its Dockerfile or the name of its image. A task that runs in no sandbox of its own demands none."""
    parameters = loaded.task.environment.parameters
    if loaded.task.environment.kind != "workspace":
        return frozenset()
    demands = [digest_record(["tools", *requirements_of(loaded)])]
    image = _dockerfile_digest(loaded) or parameters.get("docker_image")
    if isinstance(image, str):
        demands.append(digest_record(["image", image]))
    return frozenset(demands)


def _dockerfile_digest(loaded: LoadedTask) -> str | None:
    folder = loaded.task.environment.parameters.get("folder")
    if not isinstance(folder, str) or loaded.folder is None:
        return None
    try:
        path, top = (loaded.folder / folder / "Dockerfile").resolve(), loaded.folder.resolve()
        is_read = top in path.parents and path.is_file() and path.stat().st_size <= MOST_DOCKERFILE
        return digest_bytes(path.read_bytes()) if is_read else None
    except (OSError, ValueError, RuntimeError):  # also a name with a zero byte, and links in a circle
        return None


def _given_servers(task: Task) -> tuple[McpServer, ...]:
    """Returns the servers that a task names. Those of a folder were checked when it was loaded."""
    try:
        servers = msgspec.convert(task.environment.parameters.get("mcp_servers", ()), tuple[McpServer, ...])
    except msgspec.ValidationError as exc:
        raise UserError(f"task {task.id!r}: environment.mcp_servers: {exc}") from exc
    for server in servers:
        needed = "command" if server.transport == "stdio" else "url"
        if not getattr(server, needed):
            raise UserError(f"task {task.id!r}: environment.mcp_servers: {server.name!r} needs a {needed}")
    return servers


def _plain_name(name: str, used: Collection[str]) -> str:
    """Returns a server's name in the characters that every harness accepts, unlike the names used before."""
    plain = _UNPLAIN.sub("-", name).strip("-")[:40] or "server"
    candidates = (plain, *(f"{plain}-{number}" for number in range(2, len(used) + 2)))
    return next(candidate for candidate in candidates if candidate not in used)


def requirements_of(loaded: LoadedTask) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the pinned requirements of a task's tool layer and the distributions masked from it."""
    parameters = loaded.task.environment.parameters
    pinned = (*(parameters.get("layers") or ()), *(parameters.get("requirements") or ()))
    masked = tuple(parameters.get("masked_packages") or ())
    return tuple(dict.fromkeys(pinned)), masked


def _is_retryable(task: asyncio.Task[WorkspaceSpec]) -> bool:
    """Returns whether the task failed for a cause outside the task definition and the configuration."""
    return task.done() and (task.cancelled() or not isinstance(task.exception(), UserError | NoneType))


def _refuse_mixed_networks(loaded: LoadedTask, parameters: dict[str, Any]) -> None:
    """Raises `UserError` where steps differ in network mode: one sandbox serves all steps."""
    if parameters.get("network_mode", "no-network") == "no-network":
        return
    for step in loaded.steps:
        if step.name and step.network.get("network_mode") == "no-network":
            raise UserError(
                f"task {loaded.task.id!r} has network_mode {parameters['network_mode']!r} and its step {step.name!r} "
                "'no-network': one sandbox serves all steps, so write the same for all of them"
            )


class MachineNeeds(NamedTuple):
    """Needs of an attempt that the machine where it is made must meet."""

    backend: str | None
    """Name of a sandbox; None: any."""
    gpus: int


def machine_needs(loaded: LoadedTask) -> MachineNeeds:
    """Returns what a task asks for. What is no name or number counts as nothing here, and is refused later."""
    parameters = loaded.task.environment.parameters
    if loaded.task.environment.kind != "workspace":
        return MachineNeeds(None, 0)
    backend, gpus = parameters.get("backend"), parameters.get("gpus")
    return MachineNeeds(backend if isinstance(backend, str) else None, gpus if type(gpus) is int and gpus > 0 else 0)


def _refuse_unmet_needs(loaded: LoadedTask, parameters: dict[str, Any], backend: str) -> None:
    """Raises `UserError` where a task asks for another sandbox, or for an accelerator."""
    task = loaded.task.id
    if parameters.get("gpus") or parameters.get("tpu"):
        raise UserError(f"task {task!r} asks for an accelerator (gpus or tpu): local sandboxes have none")
    if parameters.get("backend") not in (None, backend):
        raise UserError(
            f"task {task!r} asks for the sandbox {parameters['backend']!r}, and this is {backend!r}: add --backend "
            f"{parameters['backend']} to `assay run`, or to `assay node` on a machine that has it"
        )
