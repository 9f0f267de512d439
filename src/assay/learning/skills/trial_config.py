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
    attempts: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    """Attempts at each task in each arm."""
    looks: Annotated[int, msgspec.Meta(ge=1, le=20)] = 3
    """Times the result is looked at: after equal parts of the tasks. The trial ends at the first look that decides it;
    1 always runs all."""
    alpha: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.05
    """Highest chance of releasing a skill not better than no skill or than the placebo; one without any effect is
    released in at most 0.6 of it, unless the placebo ends as no skill does, attempt by attempt. The holdout grants at
    most what is left of its 0.05."""
    no_placebo: bool = False
    """Leave out the control arm with a shuffled skill of equal length: the trial costs a third less, and a gain that
    any text of this length brings is taken for one of the skill."""
    harm_attempts: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0
    """Further attempts, with and without the skill, at each task that passed without it, made only where the looks
    refuse the skill with fewer passes than without and cannot tell harm from chance. 0: none."""
    protected: tuple[str, ...] = ()
    """Ids of tasks of the trial that must not be lost, tried first; none by default."""
    seed: int = 0
    """With the skill's version and the tasks it gives the seed of the runs, the same in all arms."""
    concurrency: Annotated[int, msgspec.Meta(ge=1)] = 4
    """Attempts at a time."""
