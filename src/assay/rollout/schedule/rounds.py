"""Runs a budget of attempts in rounds, each decided by a policy from the outcomes of earlier rounds.

A round is a pure function of recorded outcomes, so no decision is stored, and a resumed run completes exactly what is
missing. A record that does not match the decisions (of another policy version, say) is an error.

Limitation: a round begins when the one before has ended, so a slow attempt delays the next round.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from assay.agents.fork import ForkAgent
from assay.agents.interface import Agent
from assay.errors import UserError
from assay.records import Trajectory
from assay.rollout.attempt.preparation import Preparer
from assay.rollout.config import RunConfig
from assay.rollout.limits.early_stop import EARLY_STOP, HOPELESS, StopRule, fit_stop_rule, is_control, longest_lengths
from assay.rollout.plan import PlannedAttempt, attempt_id, attempt_seed, merge_limits
from assay.rollout.progress import ForwardedProgress, Progress
from assay.rollout.recording.task_archive import undisturbed_digest
from assay.rollout.schedule.allocation import (
    Anchor,
    Grant,
    Policy,
    StatePath,
    TaskHistory,
    interleave_grants,
)
from assay.rollout.schedule.fork_states import ForkOrigin, fork_states, path_of, plan_fork
from assay.rollout.schedule.policies import CURRICULA, policy_named
from assay.store import AttemptRow, RunStore
from assay.tasks import LoadedTask, find_tasks

RunPlan = Callable[[Sequence[PlannedAttempt], Progress], Awaitable[None]]


class RoundResources(NamedTuple):
    """Resources of a run in rounds."""

    config: RunConfig
    agent: Agent
    store: RunStore
    preparer: Preparer | None
    run: RunPlan


def score_of(row: AttemptRow) -> float | None:
    """Returns an attempt's first score; None without one."""
    if row.outcome not in ("pass", "fail"):
        return None
    return row.score if row.score is not None else float(row.outcome == "pass")


def levels_of(config: RunConfig, tasks: Sequence[LoadedTask]) -> list[int]:
    """Returns each task's level, the index of its source; all 0 without a curriculum.

    Raises:
        UserError: There is only one level, or a level has no task.
    """
    if config.allocate not in CURRICULA:
        return [0] * len(tasks)
    of: dict[str, int] = {}
    for level, source in enumerate(config.tasks):
        for loaded in find_tasks([source]):
            of.setdefault(loaded.task.id, level)
    levels = [of.get(loaded.task.id, 0) for loaded in tasks]
    if len(config.tasks) < 2 or set(levels) != set(range(len(config.tasks))):
        raise UserError(
            f"allocate={config.allocate} is a curriculum over levels, each a source of tasks of its own, the easiest "
            "first: name at least two (for example family:grid,n=50,size=3 family:grid,n=50,size=5)"
        )
    return levels


async def run_rounds(resources: RoundResources, tasks: Sequence[LoadedTask], progress: Progress) -> None:
    """Runs the missing part of the whole budget.

    Raises:
        UserError: The record does not match the policy's decisions.
        StoreError: The record cannot be written; committed events stay and the run can be resumed.
    """
    rounds = _Rounds(resources, tasks)
    rounds_progress = ForwardedProgress(progress)
    progress.begin(total=rounds.total, done=len(rounds.ended()))
    while rounds.left:
        grants = rounds.decide()
        plans = rounds.planned(grants)
        ended = rounds.ended()
        missing = [(plan, anchor) for plan, anchor in plans if plan.id not in ended]
        if missing:  # then nothing later has begun
            rounds.require_known(plans)
        wanted = [(plan.loaded, anchor) for plan, anchor in missing if anchor is not None]
        async with fork_states(resources.store, wanted, resources.preparer) as states:
            await resources.run(
                [rounds.with_fork_origin(plan, anchor, states) for plan, anchor in missing], rounds_progress
            )
        rounds.end_round([plan for plan, _ in plans])
    rounds.require_known(())


class _Rounds:
    def __init__(self, resources: RoundResources, tasks: Sequence[LoadedTask]) -> None:
        self._resources, self._tasks = resources, tasks
        config = resources.config
        options = config.allocate_options
        if config.early_stop is not None and config.allocate == "uniform":
            options = {"step": 1, **options}  # what is learnt in one round is used in the next
        self._policy: Policy = policy_named(config.allocate, options)
        self._levels = levels_of(config, tasks)
        self.total = config.total(len(tasks))
        self.left = self.total
        self._number = 0
        self._attempts: list[list[tuple[str, int]]] = [[] for _ in tasks]
        """For each task, the ids of earlier attempts and their round."""
        self._known: dict[str, tuple[AttemptRow, Trajectory | None]] = {}
        self._rule = StopRule()

    def ended(self) -> set[str]:
        return {row.attempt for row in self._resources.store.attempts() if row.final}

    def decide(self) -> list[Grant]:
        grants = list(self._policy.grants([self._task_history(task) for task in range(len(self._tasks))], self.left))
        given = sum(grant.attempts for grant in grants)
        if not 1 <= given <= self.left or any(grant.attempts < 1 for grant in grants):
            raise AssertionError(
                f"the policy {self._resources.config.allocate!r} granted {given} attempts; {self.left} are left"
            )
        return grants

    def _task_history(self, task: int) -> TaskHistory:
        scores, numbers, paths = [], [], []
        for name, number in self._attempts[task]:
            row, trajectory = self._known[name]
            score = score_of(row)
            path = path_of(trajectory, score) if trajectory is not None else StatePath(row.chain, (), score)
            paths.append(path)
            if path.forked is None:
                scores.append(score)
                numbers.append(number)
        return TaskHistory(tuple(scores), tuple(numbers), self._levels[task], tuple(paths))

    def planned(self, grants: Sequence[Grant]) -> list[tuple[PlannedAttempt, Anchor | None]]:
        """Returns the attempts of a round; each grant's first attempt precedes any second one."""
        next_number = [len(taken) for taken in self._attempts]
        plans = []
        for grant in interleave_grants(grants):
            plans.append((self._plan(grant.task, next_number[grant.task]), grant.anchor))
            next_number[grant.task] += 1
        return plans

    def _plan(self, task: int, number: int) -> PlannedAttempt:
        config, loaded = self._resources.config, self._tasks[task]
        name = attempt_id(loaded.task.id, number)
        extra_config: dict[str, Any] = {"allocation": {"policy": config.allocate, "round": self._number}}
        rule = None
        if config.early_stop is not None:
            rule = msgspec.structs.replace(self._rule, control=is_control(name, config.seed))
            extra_config[EARLY_STOP] = msgspec.to_builtins(rule)
        return PlannedAttempt(
            id=name,
            loaded=loaded,
            number=number,
            seed=attempt_seed(config.seed, undisturbed_digest(loaded.task), self._resources.agent.name, number),
            limits=merge_limits(config.limits, loaded.task.limits),
            extra_config=extra_config,
            stop=rule,
        )

    def with_fork_origin(
        self, plan: PlannedAttempt, anchor: Anchor | None, states: dict[Anchor, ForkOrigin | None]
    ) -> PlannedAttempt:
        begin = None if anchor is None else states[anchor]
        if anchor is None or begin is None:
            return plan
        extra_config = {name: value for name, value in plan.extra_config.items() if name != EARLY_STOP}
        forked = plan._replace(agent=ForkAgent(self._resources.agent), extra_config=extra_config, stop=None)
        return plan_fork(forked, anchor, begin)

    def require_known(self, plans: Sequence[tuple[PlannedAttempt, Anchor | None]]) -> None:
        """Raises `UserError` if the record contains attempts of no round so far."""
        decided = {name for taken in self._attempts for name, _ in taken} | {plan.id for plan, _ in plans}
        strange = sorted({row.attempt for row in self._resources.store.attempts()} - decided)
        if strange:
            raise UserError(
                f"run {self._resources.store.run!r} contains {strange[0]!r}, which is not an attempt of round "
                f"{self._number} of allocate={self._resources.config.allocate}: it was "
                "made by another version; start a new run"
            )

    def end_round(self, plans: Sequence[PlannedAttempt]) -> None:
        rows = {row.attempt: row for row in self._resources.store.attempts() if row.final}
        tasks = {loaded.task.id: task for task, loaded in enumerate(self._tasks)}
        whole = self._policy.wants_paths or self._resources.config.early_stop is not None
        for plan in plans:
            row = rows[plan.id]
            self._known[plan.id] = (row, self._resources.store.trajectory(row.chain) if whole else None)
            self._attempts[tasks[plan.loaded.task.id]].append((plan.id, self._number))
        self.left -= len(plans)
        self._number += 1
        if self._resources.config.early_stop is not None:
            self._rule = self._fit_stop_rule(self._resources.config.early_stop)

    def _fit_stop_rule(self, tolerated: float) -> StopRule:
        """Fits the rule to successes that no threshold could have stopped."""
        free = [one for _, one in self._known.values() if one is not None and _ran_unbounded(one)]
        return fit_stop_rule([longest_lengths(one.steps) for one in free if one.outcome == "pass"], tolerated)


def _ran_unbounded(trajectory: Trajectory) -> bool:
    """Returns whether no threshold could have stopped the attempt: it had none, or was a control."""
    rule = trajectory.started.config.get(EARLY_STOP)
    if not isinstance(rule, dict) or "fork" in trajectory.started.config:
        return False
    bound = any(rule.get(name) is not None for name in ("turns", "stale"))
    ended = trajectory.finished is not None and trajectory.finished.stopped != HOPELESS
    return ended and (bool(rule.get("control")) or not bound)
