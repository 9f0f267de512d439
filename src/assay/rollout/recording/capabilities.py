"""Passes the capabilities of a wrapped workspace on to its wrapper.

Capabilities are tested with `isinstance`; a wrapper that hides them weakens judging: programs run in one process with
the judge, and no grade of separation is recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from assay.environments.capabilities import (
    CountsOrphans,
    DescribesSeparation,
    HasHostProcess,
    ListensLocally,
    ObservesLoads,
)
from assay.environments.interface import MeasuresMemory, Workspace

from .workspace_wrapper import WorkspaceWrapper

W = TypeVar("W", bound=WorkspaceWrapper)

CAPABILITIES: dict[type, tuple[str, ...]] = {
    CountsOrphans: ("orphans",),
    DescribesSeparation: ("facts",),
    HasHostProcess: ("host_pid",),
    ListensLocally: ("listen_local",),
    MeasuresMemory: ("memory_bytes",),
    ObservesLoads: ("observe_loads", "loads"),
}
"""Capability to its methods. `PipedExec` is left out: a wrapper that changes commands must wrap it itself."""


def capable_class(wrapper: type[W], inner: Workspace) -> type[W]:
    """Returns a subclass of a wrapper class with the capabilities of a workspace."""
    base: Any = wrapper
    made: type[W] = _subclass(base, tuple(one for one in CAPABILITIES if isinstance(inner, one)))
    return made


@functools.cache
def _subclass(base: Any, capabilities: tuple[type, ...]) -> Any:
    methods = {name: _forward_method(name) for one in capabilities for name in CAPABILITIES[one]}
    return type(base.__name__, (base,), methods)


def _forward_method(name: str) -> Callable[..., Any]:
    def method(self: WorkspaceWrapper, *args: Any, **named: Any) -> Any:
        return getattr(self._inner, name)(*args, **named)

    return method
