"""Parameters of a world of services, and the services that they name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from assay.plugins import load

from .composition import Composition, compose
from .machines.compile import compile_machine
from .machines.machine import Machine
from .plans import PlannedCall


class WorldOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of a world of services."""

    services: tuple[str, ...] = ()
    """Names of services: short, `module:attribute` or `path/file.py:attribute`."""
    machines: Annotated[tuple[Machine, ...], Meta(max_length=4)] = ()
    """State machines, each of which is one more service."""
    knobs: dict[str, dict[str, Any]] = {}
    """Options of the generators, by name of the service."""
    actor: str = ""
    """Identifier of the person for whom the agent is signed in."""
    plan: tuple[PlannedCall, ...] = ()
    """Reference solution, which only the oracle and admission use; agents never see a task's parameters."""
    reported: tuple[PlannedCall, ...] = ()
    """Views of the role `system` whose results are facts of the final state."""


def read_options(parameters: Mapping[str, Any]) -> tuple[WorldOptions, Composition]:
    """Returns the options of a world, and its services put together.

    Raises:
        ValueError: A parameter is invalid; the message lists what is allowed.
        PluginLoadError: A service does not exist.
    """
    try:
        options = msgspec.convert(dict(parameters), WorldOptions)
    except msgspec.ValidationError as exc:
        allowed = ", ".join(WorldOptions.__struct_fields__)
        raise ValueError(f"The world of services: {exc}; known options: {allowed}") from exc
    services = [load("services", name) for name in options.services]
    composition = compose([*services, *(compile_machine(machine) for machine in options.machines)])
    for call in options.reported:
        action = composition.actions.get(call.action)
        if action is None or not action.reads_only or "system" not in action.roles:
            raise ValueError(f"The world of services cannot report {call.action!r}: it is not a view of the world")
    return options, composition
