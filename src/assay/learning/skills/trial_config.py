"""Configuration of `assay skills trial`; imports nothing heavy, so that `--help` stays fast."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec


class TrialConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A trial of the newest version of a skill."""

    skill: str
    """Name of the skill in the store."""
    tasks: tuple[str, ...]
    """Held-out tasks: task folders, or families as `family:NAME,n=200,seed=7`."""
    agent: str = "rules-world"
    """Agent that follows the skill; it takes the option `skill=FOLDER`."""
    agent_options: dict[str, Any] = {}
    """Further options of the agent, the same in all arms."""
    model: str | None = None
    """Model of the agent, if it needs one."""
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Attempts at each task in each arm."""
    alpha: float = 0.03
    """Level of each one-sided test; the holdout grants at most what is left of its 0.05."""
    placebo: bool = True
    """Run the control arm with a shuffled skill of equal length."""
    protected: tuple[str, ...] = ()
    """Ids of tasks of the trial that must not be lost; none by default."""
    seed: int = 0
    """Seed of the run, the same in all arms."""
    concurrency: Annotated[int, msgspec.Meta(ge=1)] = 4
    """Attempts at a time."""
