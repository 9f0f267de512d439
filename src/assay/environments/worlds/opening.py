"""Makes the world that a task names: a family by its short name, a class by path or module, with what is put around it.

`wrap` is the one parameter that is ours: a list of wrappers, the innermost first. Every other one is the world's.
"""

from __future__ import annotations

from typing import Any

from assay.environments.interface import World
from assay.plugins import load
from assay.records import EnvironmentSpec

from .interface import TextWorld
from .played import PlayedWorld

__all__ = ["WRAP", "is_text_world", "open_world", "text_world", "world_kind"]

WRAP = "wrap"
_PARTS = ("reset", "tools", "act", "snapshot", "restore", "fork", "state", "facts", "oracle", "progress")


def world_kind(name: str) -> Any:
    """The class of a world. Raises `PluginLoadError`."""
    return load("environments", name)


def is_text_world(kind: Any) -> bool:
    """Whether a class, or an object, is a text world and no `World` of its own."""
    return all(callable(getattr(kind, part, None)) for part in _PARTS) and not hasattr(kind, "specs")


def open_world(spec: EnvironmentSpec, kind: Any = None) -> World:
    """Builds the world of a task, fresh.

    Args:
        spec: Which.
        kind: Its class, where that was looked up before; a class in a file is read anew otherwise.

    Raises:
        PluginLoadError: There is no such world.
        ValueError: A parameter is wrong. Whatever else a world's own code raises passes as it is.
    """
    kind = world_kind(spec.kind) if kind is None else kind
    if not is_text_world(kind):
        made: World = kind(spec.parameters, spec.seed)
        return made
    return PlayedWorld(text_world(kind, spec.parameters, spec.seed))


def text_world(kind: Any, parameters: dict[str, Any], seed: int) -> TextWorld:
    """Builds a text world, and what is put around it. Raises `ValueError` where a parameter is wrong."""
    own = {name: value for name, value in parameters.items() if name != WRAP}
    made: TextWorld = kind(own, seed)
    if WRAP not in parameters:
        return made
    from .wrappers import wrap_world

    return wrap_world(made, parameters[WRAP], seed)
