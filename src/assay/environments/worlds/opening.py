"""Builds the world named by a task: a family by short name, or a class by path or module, with its wrappers.

`wrap` lists wrappers, innermost first. `sandbox` holds parameters, those of a workspace, of the sandbox in
which agents that are programs act on the world; default: the host's tools. All others are the world's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from assay.environments.interface import World
from assay.environments.wrapping import WRAP
from assay.plugins import load
from assay.records import EnvironmentSpec, Task

from .interface import NamesFacts, SplitsKnowledge, TextWorld
from .played import PlayedWorld

SANDBOX = "sandbox"
_PARTS = ("reset", "tools", "act", "snapshot", "restore", "fork", "state", "facts", "oracle", "progress")


def world_kind(name: str) -> Any:
    """Returns the class of a world. Raises `PluginLoadError`."""
    return load("environments", name)


def is_text_world(kind: Any) -> bool:
    """Returns whether a class or object is a text world and not a `World`."""
    return all(callable(getattr(kind, part, None)) for part in _PARTS) and not hasattr(kind, "specs")


def open_world(spec: EnvironmentSpec, kind: Any = None) -> World:
    """Builds the world of a task.

    Args:
        spec: World name and parameters.
        kind: Its class, if already looked up; a class in a file is otherwise loaded anew.

    Raises:
        PluginLoadError: The world does not exist.
        ValueError: A parameter is invalid. Other exceptions of a world's own code pass through.
    """
    kind = world_kind(spec.kind) if kind is None else kind
    parameters = {name: value for name, value in spec.parameters.items() if name != SANDBOX}
    if not is_text_world(kind):
        return _open_world(kind, parameters, spec.seed)
    return PlayedWorld(text_world(kind, parameters, spec.seed))


def _open_world(kind: Any, parameters: dict[str, Any], seed: int) -> World:
    if WRAP not in parameters or not (isinstance(kind, type) and _is_service(kind)):
        made: World = kind(parameters, seed)
        return made
    from assay.environments.services.disturbances.world import DisturbedWorld

    own = {name: value for name, value in parameters.items() if name != WRAP}
    return DisturbedWorld(kind(own, seed), parameters[WRAP])


def _is_service(kind: type) -> bool:
    from assay.environments.services.world import ServiceWorld  # late: 2 MiB, which other worlds do not need

    return issubclass(kind, ServiceWorld)


def text_world(kind: Any, parameters: dict[str, Any], seed: int) -> TextWorld:
    """Builds a text world and its wrappers. Raises `ValueError` for an invalid parameter."""
    own = {name: value for name, value in parameters.items() if name != WRAP}
    made: TextWorld = kind(own, seed)
    if WRAP not in parameters:
        return made
    from .wrappers import wrap_world

    return wrap_world(made, parameters[WRAP], seed)


class NeededFacts(NamedTuple):
    """Facts that a task's solution needs, and who is given them at the start."""

    facts: tuple[str, ...]
    """Texts; empty for a world that names none."""
    starts: dict[int | str, str]
    """Text that an actor reads at the start, by the part of the knowledge that it is given: its number, or `all`."""


def needed_facts(task: Task) -> NeededFacts:
    """Returns the facts that a task's solution needs (`NamesFacts`). Executes the world's code. Raises as
    `open_world`."""
    spec = task.environment
    kind = world_kind(spec.kind)
    if not (is_text_world(kind) and callable(getattr(kind, "needed_facts", None))):
        return NeededFacts((), {})
    world = kind({name: value for name, value in spec.parameters.items() if name not in (SANDBOX, WRAP)}, spec.seed)
    facts = world.needed_facts() if isinstance(world, NamesFacts) else ()
    parts = range(world.parts + 1) if isinstance(world, SplitsKnowledge) and world.parts else ()
    told = task.instruction
    if not isinstance(told, str):
        told = "\n".join(one.content for one in told if isinstance(one.content, str))
    return NeededFacts(facts, {"all": told, **{part: world.view(part) for part in parts}})
