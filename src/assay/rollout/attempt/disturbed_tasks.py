"""Tasks under the disturbances that a run asks for.

A disturbed task is the same task in another environment: its parameters name the disturbances, so that replaying and
judging it again need nothing but its record. It has the id of the task and a digest of its own; its metadata says which
task it is made of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from assay.environments.interface import World
from assay.environments.worlds.opening import open_world
from assay.environments.worlds.played import PlayedWorld
from assay.environments.wrapping import WRAP, parse_wrappers, read_wrappers
from assay.errors import UserError
from assay.records import Check, Task, digest_record
from assay.rollout.recording.task_archive import DISTURBED
from assay.tasks import LoadedTask

from .disturbed_workspace import AttackedOutput, ParaphrasedRequest, open_layers


def disturb_tasks(tasks: Iterable[LoadedTask], spec: str | None) -> tuple[LoadedTask, ...]:
    """Returns the tasks under disturbances; those that are disturbed so already, and all without any, as they are.

    Raises:
        UserError: A specification is invalid, or does not fit the environment of a task.
    """
    if not spec:
        return tuple(tasks)
    wrap = parse_wrappers(spec)
    drawn: Counter[tuple[str, ...]] = Counter()
    return tuple(loaded._replace(task=_disturb(loaded.task, wrap, drawn)) for loaded in tasks)


def _disturb(task: Task, wrap: Sequence[dict[str, Any]], drawn: Counter[tuple[str, ...]]) -> Task:
    label = task.metadata.get(DISTURBED)
    if label is not None:
        if label.get(WRAP) == list(wrap):
            return task
        raise UserError(f"task {task.id!r} is disturbed already, in another way")
    environment = task.environment
    own = environment.parameters.get(WRAP) or []
    layers = [_draw_operator(task, layer, drawn) for layer in wrap]
    parameters = {**environment.parameters, WRAP: [*own, *layers]}
    digest = digest_record([task.digest, layers])
    made = replace(
        task,
        environment=replace(environment, parameters=parameters),
        digest=digest,
        metadata={**task.metadata, DISTURBED: {WRAP: list(wrap), "digest": task.digest}},
    )
    return _disturb_world(made) if environment.kind != "workspace" else _disturb_sandbox(made)


def _draw_operator(task: Task, layer: dict[str, Any], drawn: Counter[tuple[str, ...]]) -> dict[str, Any]:
    """Returns a layer with the values of the cell of attacks that was drawn least often for the tasks before, where it
    asks for all; `drawn` counts them. Raises `UserError` if the task has no such cell."""
    if layer["kind"] != "attack" or "all" not in (layer.get(name) for name in ("where", "form", "harm")):
        return layer
    from assay.environments.services.disturbances.attack import Attack  # late: most runs have no services
    from assay.environments.services.disturbances.world import DisturbedWorld
    from assay.environments.services.world import ServiceWorld

    if task.environment.kind == "workspace":
        raise UserError(f"task {task.id!r} has no services, whose attacks alone take `all`")
    try:
        ((_, options),) = read_wrappers([layer], {Attack.kind: Attack})
        world: World = open_world(task.environment)
    except ValueError as exc:
        raise UserError(f"task {task.id!r} cannot be disturbed: {exc}") from exc
    service = world.service if isinstance(world, DisturbedWorld) else world
    if not isinstance(service, ServiceWorld):
        raise UserError(f"task {task.id!r} has no services, whose attacks alone take `all`")
    operators = Attack(options, service).list_operators()
    service.database.close()
    if not operators:
        raise UserError(f"task {task.id!r} cannot be attacked so: no act or no text that its plan reads fits {layer}")
    chosen = min(operators, key=lambda one: drawn[one])
    drawn[chosen] += 1
    asked = {name: value for name, value in chosen._asdict().items() if layer.get(name) == "all"}
    return {**layer, **asked}


def _disturb_sandbox(task: Task) -> Task:
    """Returns the task with its instruction as the agent reads it, and a check of an attack. Raises `UserError`."""
    try:
        layers = open_layers(task)
    except ValueError as exc:
        raise UserError(f"task {task.id!r} cannot be disturbed: {exc}") from exc
    instruction, checks = task.instruction, task.checks
    for layer in layers:
        if isinstance(instruction, str):
            instruction = layer.rewrite(instruction)
        elif isinstance(layer, ParaphrasedRequest):
            raise UserError(f"task {task.id!r} cannot be paraphrased: its request is a conversation")
        if isinstance(layer, AttackedOutput) and all(one.kind != layer.kind for one in checks):
            checks = (*checks, Check(layer.kind, layer.kind, msgspec.to_builtins(layer.attack)))
    return replace(task, instruction=instruction, checks=checks)


def _disturb_world(task: Task) -> Task:
    """Returns the task with its instruction as the agent reads it."""
    from assay.environments.services.disturbances.attack import Attack  # late: most runs have no services
    from assay.environments.services.disturbances.world import DisturbedWorld

    try:
        world: World = open_world(task.environment)
    except ValueError as exc:
        raise UserError(f"task {task.id!r} cannot be disturbed: {exc}") from exc
    if not isinstance(world, DisturbedWorld):
        if isinstance(world, PlayedWorld):
            return task
        raise UserError(
            f"task {task.id!r} cannot be disturbed: the environment {task.environment.kind!r} has no wrappers"
        )
    instruction = task.instruction
    if isinstance(instruction, str):
        instruction = world.rewrite(instruction)
    checks = task.checks
    if any(isinstance(layer, Attack) for layer in world.layers) and all(one.kind != Attack.kind for one in checks):
        checks = (*checks, Check(Attack.kind, Attack.kind))
    world.service.database.close()
    return replace(task, instruction=instruction, checks=checks)
