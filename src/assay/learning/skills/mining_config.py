"""Configuration of `assay skills mine`; imports nothing heavy, so that `--help` stays fast."""

from __future__ import annotations

from typing import Annotated

import msgspec


class MiningConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Mining of composite tools in verified attempts."""

    runs: tuple[str, ...]
    """Runs of tasks in in-process worlds, such as services."""
    name: str
    """Name of the skill; an existing one gets a new version."""
    least_tasks: Annotated[int, msgspec.Meta(ge=2)] = 3
    """Tasks in whose passing attempts a sequence must stand."""
    most: Annotated[int, msgspec.Meta(ge=1, le=32)] = 8
    """Maximum number of tools."""
    proofs: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3
    """Attempts of different tasks that are executed again for each tool; every one must support it."""
    writes: bool = False
    """Allow a tool whose last call changes the state: the agent then acts without having seen the calls before."""
