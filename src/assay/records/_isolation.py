"""How an attempt was isolated, limit by limit."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Hold", "Isolation", "IsolationName", "LimitHold"]

Hold = Literal["hard", "soft", "none"]
IsolationName = Literal["namespaces", "bubblewrap", "docker", "podman", "none", "not needed"]


class LimitHold(msgspec.Struct, frozen=True, omit_defaults=True):
    """One limit: `hard` means that the kernel holds it, `soft` that a watchdog does, `none` that nothing does."""

    name: str
    """`memory`, `processes`, `cpu`, `disk`, `file_size`, `open_files`, `wall_time`, `output`, `network`, ..."""
    hold: Hold
    value: float | None = None
    unit: str = ""
    by: str = ""
    """The mechanism, for example `cgroup v1`, `tmpfs size`, `RLIMIT_FSIZE`, `watchdog 200 ms`."""


class Isolation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What stood between the agent and the host."""

    name: IsolationName
    limits: tuple[LimitHold, ...] = ()
    network: str = "none"
    """`none`, or the policy that was applied, in words."""
    users: Literal["separate", "same"] = "same"
    """Whether agent and verifier ran as different users."""
    notes: tuple[str, ...] = ()
