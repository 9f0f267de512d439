"""Gives a workspace that wraps another one those capabilities which the other one has.

Capabilities are asked for with `isinstance`; a wrapper that hides them is judged by less: its programs run in one
process with what judges them, and no grade of separation is recorded.
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

from .passing import PassingWorkspace

__all__ = ["CAPABILITIES", "capable_class"]

W = TypeVar("W", bound=PassingWorkspace)

CAPABILITIES: dict[type, tuple[str, ...]] = {
    CountsOrphans: ("orphans",),
    DescribesSeparation: ("facts",),
    HasHostProcess: ("host_pid",),
    ListensLocally: ("listen_local",),
    MeasuresMemory: ("memory_bytes",),
    ObservesLoads: ("observe_loads", "loads"),
}
"""Capability to its methods. `PipedExec` is left out: a wrapper that changes what runs changes that, too."""


def capable_class(wrapper: type[W], inner: Workspace) -> type[W]:
    """Returns a subclass of a wrapper that passes on the capabilities of a workspace."""
    base: Any = wrapper
    made: type[W] = _subclass(base, tuple(one for one in CAPABILITIES if isinstance(inner, one)))
    return made


@functools.cache
def _subclass(base: Any, capabilities: tuple[type, ...]) -> Any:
    methods = {name: _make_forwarder(name) for one in capabilities for name in CAPABILITIES[one]}
    return type(base.__name__, (base,), methods)


def _make_forwarder(name: str) -> Callable[..., Any]:
    def method(self: PassingWorkspace, *args: Any, **named: Any) -> Any:
        return getattr(self._inner, name)(*args, **named)

    return method
