"""Isolation of an attempt, limit by limit."""

from __future__ import annotations

from typing import Literal

import msgspec

Hold = Literal["hard", "soft", "none"]
IsolationName = Literal["namespaces", "bubblewrap", "docker", "podman", "none", "not needed"]


class LimitHold(msgspec.Struct, frozen=True, omit_defaults=True):
    """One limit and its enforcement: `hard` by the kernel, `soft` by a watchdog, or `none`."""

    name: str
    """`memory`, `processes`, `cpu`, `disk`, `file_size`, `open_files`, `wall_time`, `output`, `network`, ..."""
    hold: Hold
    value: float | None = None
    unit: str = ""
    by: str = ""
    """The mechanism, for example `cgroup v1`, `tmpfs size`, `RLIMIT_FSIZE`, `watchdog 200 ms`."""


class Isolation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Isolation between the agent and the host."""

    name: IsolationName
    limits: tuple[LimitHold, ...] = ()
    network: str = "none"
    """`none`, or the applied policy as text."""
    users: Literal["separate", "same"] = "same"
    """Users of agent and verifier: different or the same."""
    notes: tuple[str, ...] = ()
