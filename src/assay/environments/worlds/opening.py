"""Builds the world named by a task: a family by short name, or a class by path or module, with its wrappers.

`wrap` lists wrappers, innermost first. `sandbox` holds parameters, those of a workspace, of the sandbox in
which agents that are programs act on the world; default: the host's tools. All others are the world's.
"""

from __future__ import annotations

from typing import Any

from assay.environments.interface import World
from assay.environments.wrapping import WRAP
from assay.plugins import load
from assay.records import EnvironmentSpec

from .interface import NamesFacts, TextWorld
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


def needed_facts(spec: EnvironmentSpec) -> tuple[str, ...]:
    """Returns the facts that a task's solution needs (`NamesFacts`); empty for a world that names none. Executes the
    world's code. Raises as `open_world`."""
    kind = world_kind(spec.kind)
    if not (is_text_world(kind) and callable(getattr(kind, "needed_facts", None))):
        return ()
    world = kind({name: value for name, value in spec.parameters.items() if name not in (SANDBOX, WRAP)}, spec.seed)
    return world.needed_facts() if isinstance(world, NamesFacts) else ()
