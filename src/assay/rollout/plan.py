"""Plans a run's attempts: order, seeds, limits. Pure: one configuration gives one plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from assay.agents.interface import Agent, Prior
from assay.environments.interface import Snapshot
from assay.errors import UserError
from assay.records import Limits, digest_bytes
from assay.rollout.attempt.variation import Variation
from assay.rollout.limits.early_stop import StopRule
from assay.rollout.recording.task_archive import undisturbed_digest
from assay.tasks import LoadedTask

Verification = Literal["default", "as_asked"]
"""`default`: a fresh fork, planted files removed, evidence required. `as_asked`: the settings of the task's own format,
however unsound."""


MOST_ATTEMPTS = 1_000_000
"""Attempts of one run: a plan is held in memory, about a kilobyte an attempt."""


class PlannedAttempt(NamedTuple):
    """One attempt; `id` is unique in the run and stable over resumes."""

    id: str
    loaded: LoadedTask
    number: int
    seed: int
    limits: Limits
    agent: Agent | None = None
    """Agent; None is the run's agent."""
    verification: Verification = "default"
    variation: Variation = Variation()
    extra_config: Mapping[str, Any] = {}
    """Additional data for the chain's first event."""
    brings_solution: bool = False
    """True if the reference solution is brought in; its folder is excluded from the state."""
    state: Snapshot | None = None
    """Initial state; None is the task's unmodified image."""
    prior: tuple[Prior, ...] = ()
    """Recorded acts to replay, one for each part of the task; for a fork, the acts before its anchor."""
    world_state: bytes | None = None
    """Initial snapshot of an in-process world; None is its start."""
    stop: StopRule | None = None
    """Early-stopping rule; None never stops it."""
    screened: bool = False
    """True if a judge that also judges other attempts at the task may find that it failed."""

    def chain(self, retry: int) -> str:
        """Returns the chain id of one trial."""
        return f"{self.id}.{retry}"


def attempt_id(task: str, number: int) -> str:
    """Returns the id of a task's attempt with this number."""
    return f"{task}@{number}"


def attempt_seed(run_seed: int, task_digest: str, agent: str, number: int) -> int:
    """Derives a seed in [0, 2**63) deterministically."""
    text = f"{run_seed}\0{task_digest}\0{agent}\0{number}".encode()
    return int(digest_bytes(text).removeprefix("blake3:")[:16], 16) >> 1


def require_plannable(attempts: int) -> None:
    """Raises `UserError` for more attempts in all than a run may have."""
    if attempts > MOST_ATTEMPTS:
        raise UserError(
            f"the run would have {attempts:,} attempts, and at most {MOST_ATTEMPTS:,} are allowed: lower --attempts or "
            "--budget, take fewer tasks, or make several runs"
        )


def merge_limits(ours: Limits, theirs: Limits) -> Limits:
    """Returns the stricter of two limits, field by field."""
    merged = {}
    for name in Limits.__struct_fields__:
        given = [v for v in (getattr(ours, name), getattr(theirs, name)) if v is not None]
        merged[name] = min(given) if given else None
    return Limits(**merged)


def plan_tries(planned: PlannedAttempt, tries: int, limits: Limits) -> PlannedAttempt:
    """Returns the plan of an attempt that makes several tries: the task's own limits bound one try, and those of the
    run, `limits`, all of them together."""
    if tries == 1:
        return planned
    task = planned.loaded.task.limits
    most = {name: getattr(task, name) for name in Limits.__struct_fields__}
    of_all = Limits(**{name: None if value is None else value * tries for name, value in most.items()})
    return planned._replace(limits=merge_limits(limits, of_all))


def plan(tasks: Sequence[LoadedTask], agent: str, attempts: int, *, seed: int, limits: Limits) -> list[PlannedAttempt]:
    """Plans all attempts; each task's first attempt precedes any second one, so an interrupted run covers all tasks."""
    return [
        PlannedAttempt(
            id=attempt_id(loaded.task.id, number),
            loaded=loaded,
            number=number,
            seed=attempt_seed(seed, undisturbed_digest(loaded.task), agent, number),
            limits=merge_limits(limits, loaded.task.limits),
        )
        for number in range(attempts)
        for loaded in tasks
    ]
