"""Runs a budget of attempts in rounds: a policy decides each from what the ones before it showed.

Nothing of a decision is stored but what came of it: a round is a pure function of the recorded outcomes of the rounds
before, so a resumed run decides again what the cut one did, and finishes exactly what is missing. A record that does
not fit what is decided (another version of a policy, say) ends the run with an error rather than going on beside it.

The price: a round begins when the one before has ended, so a slow attempt holds the next round up.
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
from assay.rollout.attempt.trial import TryResult
from assay.rollout.config import RunConfig
from assay.rollout.limits.early_stop import EARLY_STOP, HOPELESS, StopRule, is_control, learnt_rule, longest
from assay.rollout.plan import PlannedAttempt, attempt_seed, merge_limits
from assay.rollout.progress import Progress
from assay.rollout.schedule.allocation import Anchor, Grant, Path, Policy, Seen
from assay.rollout.schedule.forking import Begin, fork_states, path_of
from assay.rollout.schedule.policies import CURRICULA, policy_named
from assay.store import AttemptRow, RunStore
from assay.tasks import LoadedTask, find_tasks

__all__ = ["RoundsMeans", "levels_of", "run_rounds", "score_of"]

RunPlan = Callable[[Sequence[PlannedAttempt], Progress], Awaitable[None]]


class RoundsMeans(NamedTuple):
    """What rounds are run with."""

    config: RunConfig
    agent: Agent
    store: RunStore
    preparer: Preparer | None
    run: RunPlan
    """Runs what is missing of a plan."""


def score_of(row: AttemptRow) -> float | None:
    """What an attempt was worth, as it was first judged; None where that is not known."""
    if row.outcome not in ("pass", "fail"):
        return None
    return row.score if row.score is not None else float(row.outcome == "pass")


def levels_of(config: RunConfig, tasks: Sequence[LoadedTask]) -> list[int]:
    """For each task, which of the sources that the run names it is from; all 0 where no curriculum asks.

    Raises:
        UserError: There is but one level, or a level without a task.
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


async def run_rounds(means: RoundsMeans, tasks: Sequence[LoadedTask], progress: Progress) -> None:
    """Runs what is missing of the whole budget.

    Raises:
        UserError: The record does not fit what the policy decides.
        StoreError: The record cannot be written; what is committed stays and the run can be resumed.
    """
    rounds = _Rounds(means, tasks)
    whole = _Whole(progress)
    progress.begin(total=rounds.total, done=len(rounds.ended()))
    while rounds.left:
        grants = rounds.decide()
        plans = rounds.planned(grants)
        ended = rounds.ended()
        missing = [(plan, anchor) for plan, anchor in plans if plan.id not in ended]
        if missing:  # then nothing later has begun
            rounds.require_known(plans)
        wanted = [(plan.loaded, anchor) for plan, anchor in missing if anchor is not None]
        async with fork_states(means.store, wanted, means.preparer) as states:
            await means.run([rounds.begun(plan, anchor, states) for plan, anchor in missing], whole)
        rounds.take([plan for plan, _ in plans])
    rounds.require_known(())


class _Rounds:
    """The rounds so far."""

    def __init__(self, means: RoundsMeans, tasks: Sequence[LoadedTask]) -> None:
        self._means, self._tasks = means, tasks
        config = means.config
        options = config.allocate_options
        if config.early_stop is not None and config.allocate == "uniform":
            options = {"step": 1, **options}  # what is learnt in one round is used in the next
        self._policy: Policy = policy_named(config.allocate, options)
        self._levels = levels_of(config, tasks)
        self.total = config.total(len(tasks))
        self.left = self.total
        self._number = 0
        self._taken: list[list[tuple[str, int]]] = [[] for _ in tasks]
        """Of each task the ids of the attempts of earlier rounds, and their round."""
        self._known: dict[str, tuple[AttemptRow, Trajectory | None]] = {}
        self._rule = StopRule()

    def ended(self) -> set[str]:
        """Attempts that need not run any more."""
        return {row.attempt for row in self._means.store.attempts() if row.final}

    def decide(self) -> list[Grant]:
        """The next round."""
        grants = list(self._policy.grants([self._seen(task) for task in range(len(self._tasks))], self.left))
        given = sum(grant.attempts for grant in grants)
        if not 1 <= given <= self.left or any(grant.attempts < 1 for grant in grants):
            raise AssertionError(
                f"the policy {self._means.config.allocate!r} granted {given} attempts; {self.left} are left"
            )
        return grants

    def _seen(self, task: int) -> Seen:
        scores, numbers, paths = [], [], []
        for name, number in self._taken[task]:
            row, trajectory = self._known[name]
            score = score_of(row)
            path = path_of(trajectory, score) if trajectory is not None else Path(row.chain, (), score)
            paths.append(path)
            if path.forked is None:
                scores.append(score)
                numbers.append(number)
        return Seen(tuple(scores), tuple(numbers), self._levels[task], tuple(paths))

    def planned(self, grants: Sequence[Grant]) -> list[tuple[PlannedAttempt, Anchor | None]]:
        """The attempts of a round, the first of every grant before the second of any."""
        next_number = [len(taken) for taken in self._taken]
        plans = []
        for place in range(max(grant.attempts for grant in grants)):
            for grant in grants:
                if place < grant.attempts:
                    plans.append((self._plan(grant.task, next_number[grant.task]), grant.anchor))
                    next_number[grant.task] += 1
        return plans

    def _plan(self, task: int, number: int) -> PlannedAttempt:
        config, loaded = self._means.config, self._tasks[task]
        name = f"{loaded.task.id}@{number}"
        told: dict[str, Any] = {"allocation": {"policy": config.allocate, "round": self._number}}
        rule = None
        if config.early_stop is not None:
            rule = msgspec.structs.replace(self._rule, control=is_control(name, config.seed))
            told[EARLY_STOP] = msgspec.to_builtins(rule)
        return PlannedAttempt(
            id=name,
            loaded=loaded,
            number=number,
            seed=attempt_seed(config.seed, loaded.task.digest, self._means.agent.name, number),
            limits=merge_limits(config.limits, loaded.task.limits),
            told=told,
            stop=rule,
        )

    def begun(self, plan: PlannedAttempt, anchor: Anchor | None, states: dict[Anchor, Begin | None]) -> PlannedAttempt:
        """The attempt as it begins: in the middle, where it is a fork whose state is to be had."""
        begin = None if anchor is None else states[anchor]
        if anchor is None or begin is None:
            return plan
        told = {name: value for name, value in plan.told.items() if name != EARLY_STOP}
        return plan._replace(
            agent=ForkAgent(self._means.agent),
            told={**told, "fork": anchor._asdict()},
            prior=(begin.prior,),
            state=begin.snapshot,
            world_state=begin.world,
            stop=None,
        )

    def require_known(self, plans: Sequence[tuple[PlannedAttempt, Anchor | None]]) -> None:
        """What is recorded is of this round or an earlier one."""
        decided = {name for taken in self._taken for name, _ in taken} | {plan.id for plan, _ in plans}
        strange = sorted({row.attempt for row in self._means.store.attempts()} - decided)
        if strange:
            raise UserError(
                f"run {self._means.store.run!r} holds {strange[0]!r}, which round {self._number} of "
                f"allocate={self._means.config.allocate} does not ask for: it was made by another version; start a new "
                "run"
            )

    def take(self, plans: Sequence[PlannedAttempt]) -> None:
        """A round has ended."""
        rows = {row.attempt: row for row in self._means.store.attempts() if row.final}
        tasks = {loaded.task.id: task for task, loaded in enumerate(self._tasks)}
        whole = self._policy.wants_paths or self._means.config.early_stop is not None
        for plan in plans:
            row = rows[plan.id]
            self._known[plan.id] = (row, self._means.store.trajectory(row.chain) if whole else None)
            self._taken[tasks[plan.loaded.task.id]].append((plan.id, self._number))
        self.left -= len(plans)
        self._number += 1
        if self._means.config.early_stop is not None:
            self._rule = self._learnt(self._means.config.early_stop)

    def _learnt(self, tolerated: float) -> StopRule:
        """From the successes that nothing could have stopped."""
        free = [one for _, one in self._known.values() if one is not None and _was_free(one)]
        return learnt_rule([longest(one.steps) for one in free if one.outcome == "pass"], tolerated)


def _was_free(trajectory: Trajectory) -> bool:
    """Whether it ran to its own end whatever it did: under no threshold, or as a control."""
    rule = trajectory.started.config.get(EARLY_STOP)
    if not isinstance(rule, dict) or "fork" in trajectory.started.config:
        return False
    bound = any(rule.get(name) is not None for name in ("turns", "stale"))
    ended = trajectory.finished is not None and trajectory.finished.stopped != HOPELESS
    return ended and (bool(rule.get("control")) or not bound)


class _Whole(Progress):
    """The rounds as one run."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def begin(self, *, total: int, done: int) -> None:
        """The whole has begun already."""

    def started(self, attempt: PlannedAttempt) -> None:
        self._progress.started(attempt)

    def retrying(self, attempt: PlannedAttempt, result: TryResult) -> None:
        self._progress.retrying(attempt, result)

    def finished(self, attempt: PlannedAttempt, result: TryResult) -> None:
        self._progress.finished(attempt, result)
