"""Which attempts a run consists of, in which order, with which seed. Pure: one configuration gives one plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from assay.agents.interface import Agent, Prior
from assay.environments.interface import Snapshot
from assay.records import Limits, digest_bytes
from assay.rollout.attempt.variation import Variation
from assay.rollout.limits.early_stop import StopRule
from assay.tasks import LoadedTask

__all__ = ["PlannedAttempt", "Verification", "attempt_seed", "merge_limits", "plan"]

Verification = Literal["default", "as_asked"]
"""`default`: a fresh fork, planted things undone, evidence demanded. `as_asked`: what the task's own settings mean
where they come from, however unsound."""


class PlannedAttempt(NamedTuple):
    """One attempt: `id` is unique in the run and stable over resumes."""

    id: str
    loaded: LoadedTask
    number: int
    seed: int
    limits: Limits
    agent: Agent | None = None
    """Who acts; None is the run's agent."""
    verification: Verification = "default"
    variation: Variation = Variation()
    told: Mapping[str, Any] = {}
    """What the chain's first event tells beside all this."""
    brings_solution: bool = False
    """The reference solution is brought in, by whoever acts: its folder is no part of the state."""
    state: Snapshot | None = None
    """Where the attempt begins; None is the task's image as it is."""
    prior: tuple[Prior, ...] = ()
    """What a replay does again: one for each part of the task. Of a fork, what led to where it begins."""
    world_state: bytes | None = None
    """Where an attempt in an in-process world begins, as its `snapshot` gave it; None is its start."""
    stop: StopRule | None = None
    """When it is ended as hopeless; None is never."""

    def chain(self, retry: int) -> str:
        """Id of the chain of one try."""
        return f"{self.id}.{retry}"


def attempt_seed(run_seed: int, task_digest: str, agent: str, number: int) -> int:
    """A seed in [0, 2**63), the same wherever and whenever it is derived."""
    text = f"{run_seed}\0{task_digest}\0{agent}\0{number}".encode()
    return int(digest_bytes(text).removeprefix("blake3:")[:16], 16) >> 1


def merge_limits(ours: Limits, theirs: Limits) -> Limits:
    """The stricter of two limits, field by field."""
    merged = {}
    for name in Limits.__struct_fields__:
        given = [v for v in (getattr(ours, name), getattr(theirs, name)) if v is not None]
        merged[name] = min(given) if given else None
    return Limits(**merged)


def plan(tasks: Sequence[LoadedTask], agent: str, attempts: int, *, seed: int, limits: Limits) -> list[PlannedAttempt]:
    """All attempts, the first of every task before the second of any, so that a cut run has seen every task."""
    return [
        PlannedAttempt(
            id=f"{loaded.task.id}@{number}",
            loaded=loaded,
            number=number,
            seed=attempt_seed(seed, loaded.task.digest, agent, number),
            limits=merge_limits(limits, loaded.task.limits),
        )
        for number in range(attempts)
        for loaded in tasks
    ]
