"""Configuration of alarms. Imports no rules: `assay alarm --help` shows the options."""

from __future__ import annotations

from typing import Annotated

import msgspec


class AlarmConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Configuration of alarms."""

    attempt: tuple[str, ...] = ()
    """Only these attempts; repeatable."""
    threshold: Annotated[float, msgspec.Meta(gt=0, le=100)] = 0.8
    """Weight of the signs at a step that raises an alarm; more raises fewer."""
    contracts: tuple[str, ...] = ()
    """Safety contracts, as TOML files, whose broken rules and permissions raise an alarm too; repeatable."""
    every: bool = False
    """Report every alarm of an attempt, not the first alone."""
    follow: bool = False
    """Go on while the run is written, and report each alarm as it is raised."""
