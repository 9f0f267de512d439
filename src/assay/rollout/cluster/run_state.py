"""The state of one run in a coordinator's memory: rounds, queue, leases, results. No I/O.

Everything in it follows from the rounds and finals in the object store and from what agents report, so a coordinator
that starts anew rebuilds it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import msgspec

from assay.errors import StoreError, UserError
from assay.rollout.attempt.trial import TrialResult
from assay.rollout.limits.run_budget import BudgetLimits, ModelUse
from assay.rollout.plan import PlannedAttempt, attempt_id
from assay.rollout.schedule.allocation import Grant, Policy, TaskHistory, Uniform, UniformOptions, interleave_grants
from assay.tasks import LoadedTask

from .epochs import RoundRecord
from .objects import object_name, object_name_maker
from .placement import AttemptQueue, NodeResources, Requirements, add_use, affordable_attempts
from .transport import Lease, TrialEnd

MOST_CRASHES = 10
"""Trials of one attempt that may end without a record."""
_NO_REQUIREMENTS = Requirements()


class ClusterRun(NamedTuple):
    """A run for a coordinator."""

    name: str
    tasks: Sequence[LoadedTask]
    total: int
    """Attempts over all tasks."""
    policy: Policy
    plan: Callable[[LoadedTask, int, int], PlannedAttempt]
    """Plans an attempt from its task, its number at that task, and its round; the same attempt for the same arguments,
    with the id that `attempt_id` gives."""
    levels: Sequence[int] = ()
    """Each task's level, for curricula; empty: all 0."""
    require: Callable[[LoadedTask], Requirements] = lambda _: _NO_REQUIREMENTS
    """Returns what attempts at a task need of a node."""
    weight: float = 1.0
    """Share of the slots, relative to other runs."""
    retries: int = 2
    budget: BudgetLimits = BudgetLimits()
    wall_s: float = 3600.0
    """Wall limit of attempts whose plan has none."""
    attempts: Sequence[PlannedAttempt] | None = None
    """All attempts, where they are known: then no round is decided, and `tasks` has the task of each. See
    `listed_run`."""


def listed_run(
    name: str,
    attempts: Sequence[PlannedAttempt],
    retries: int = 0,
    require: Callable[[LoadedTask], Requirements] = lambda _: _NO_REQUIREMENTS,
) -> ClusterRun:
    """Returns the run of attempts that are known. Several such runs of one name may follow each other, each with other
    attempts: their finals lie side by side."""
    tasks = [planned.loaded for planned in attempts]

    def refuse(loaded: LoadedTask, number: int, _: int) -> PlannedAttempt:
        raise AssertionError(f"attempt {number} at {loaded.task.id} is planned already")

    return ClusterRun(
        name, tasks, len(tasks), Uniform(UniformOptions()), refuse, require=require, retries=retries, attempts=attempts
    )


class LeaseTimes(NamedTuple):
    """How long leases last."""

    start_within_s: float = 120.0
    grace_s: float = 60.0
    """Beyond an attempt's wall limit, for its sandbox and its verification."""


class _OpenAttempt(msgspec.Struct, eq=False, gc=False):
    """An attempt of the current round without a known final record. The garbage collector does not scan it: a round may
    have 100,000, and none is part of a cycle."""

    task: int
    number: int
    holder: str | None = None
    planned: PlannedAttempt | None = None
    """Known while it is leased."""
    retry: int = 0
    crashes: int = 0


class RunState:
    """One run under one epoch."""

    def __init__(self, run: ClusterRun, epoch: int, times: LeaseTimes) -> None:
        if run.policy.wants_paths:
            raise UserError(f"run {run.name!r}: an allocation that forks attempts runs on one machine only")
        self.run, self.epoch, self._times = run, epoch, times
        self.rounds = 0
        self.left = run.total
        self.queue = AttemptQueue()
        self.leased = 0
        self.used = ModelUse()
        self.ended = 0
        """Trials that ended, whose use is in `used`."""
        self._used_tokens: set[str] = set()
        self._requirements = [run.require(task) for task in run.tasks]
        self._next_numbers = [0] * len(run.tasks)
        self._past_scores: list[list[float | None]] = [[] for _ in run.tasks]
        self._past_rounds: list[list[int]] = [[] for _ in run.tasks]
        """Of each task's attempts of earlier rounds: their scores, and the rounds that granted them."""
        self._current: list[int] = []
        """The tasks of the attempts of the current round, in their order."""
        self._current_numbers: list[int] = []
        """The numbers of these attempts at their tasks; empty for replayed rounds."""
        self._open: dict[str, _OpenAttempt] = {}
        self._scores: dict[str, float | None] = {}

    @property
    def is_round_finished(self) -> bool:
        return not self._open

    @property
    def is_complete(self) -> bool:
        return not self._open and self.left == 0

    @property
    def is_out_of_budget(self) -> bool:
        """True if the budget allows no further attempt and none is under way."""
        allowed = affordable_attempts(self.run.budget, self.used, self.ended, 0)
        return allowed == 0 and self.leased == 0

    def open_listed(self, attempts: Sequence[PlannedAttempt], finals: Collection[str]) -> None:
        """Opens attempts that are known, except those with final objects of these names."""
        self.left, self._next_numbers = 0, [1] * len(attempts)
        for index, planned in enumerate(attempts):
            if object_name(planned.id) not in finals:
                self._open[planned.id] = _OpenAttempt(index, 0)
                self.queue.add(planned.id, self._requirements[index])

    def restore(self, records: Sequence[RoundRecord], finals: Collection[str]) -> None:
        """Repeats the rounds that are in the store; attempts with final objects of these names are closed.

        Raises:
            StoreError: A round does not follow from those before.
        """
        for record in records[:-1]:
            self._enter_round(record)
        if records:
            self.begin_round(records[-1], finals)

    def begin_round(self, record: RoundRecord, finals: Collection[str] = ()) -> None:
        """Ends the current round with the scores of a record, and opens its attempts, except those with final objects
        of these names.

        Raises:
            StoreError: The record does not follow from the rounds before.
        """
        next_numbers = list(self._next_numbers)
        self._enter_round(record)
        final_names = [object_name_maker(loaded.task.id) for loaded in self.run.tasks] if finals else []
        for task in self._current:
            number = next_numbers[task]
            next_numbers[task] += 1
            self._current_numbers.append(number)
            if finals and final_names[task](number) in finals:
                continue
            attempt = self._name(task, number)
            self._open[attempt] = _OpenAttempt(task, number)
            self.queue.add(attempt, self._requirements[task])

    def _enter_round(self, record: RoundRecord) -> None:
        granted = sum(grant.attempts for grant in record.grants)
        if (
            record.round != self.rounds
            or len(record.scores) != len(self._current)
            or not 1 <= granted <= self.left
            or any(not 0 <= grant.task < len(self.run.tasks) or grant.attempts < 1 for grant in record.grants)
        ):
            raise StoreError(f"round {record.round} of run {self.run.name!r} does not follow from the rounds before")
        for task, score in zip(self._current, record.scores, strict=True):
            self._past_scores[task].append(score)
            self._past_rounds[task].append(self.rounds - 1)
        self._open, self._scores, self.queue = {}, {}, AttemptQueue()
        self._current = [grant.task for grant in interleave_grants(record.grants)]
        self._current_numbers = []
        for grant in record.grants:
            self._next_numbers[grant.task] += grant.attempts
        self.leased = 0
        self.left -= granted
        self.rounds += 1

    def _plan(self, task: int, number: int, round_number: int) -> PlannedAttempt:
        if self.run.attempts is not None:
            return self.run.attempts[task]
        return self.run.plan(self.run.tasks[task], number, round_number)

    def _name(self, task: int, number: int) -> str:
        if self.run.attempts is not None:
            return self.run.attempts[task].id
        return attempt_id(self.run.tasks[task].task.id, number)

    def finals(self) -> list[str]:
        """Returns all attempts that are known to have a final object: those of earlier rounds, and the closed ones."""
        open_numbers = {(one.task, one.number) for one in self._open.values()}
        return [
            self._name(task, number)
            for task, numbers in enumerate(self._next_numbers)
            for number in range(numbers)
            if (task, number) not in open_numbers
        ]

    def attempts(self) -> list[PlannedAttempt]:
        """Returns all attempts so far, without their rounds; each task's first attempt precedes any second one."""
        granted = [(number, task) for task, numbers in enumerate(self._next_numbers) for number in range(numbers)]
        return [self._plan(task, number, 0) for number, task in sorted(granted)]

    def unread_finals(self) -> list[str]:
        """Returns the attempts of the current round that are closed and whose scores are unknown."""
        return [name for name in self._current_names() if name not in self._open and name not in self._scores]

    def add_score(self, attempt: str, result: TrialResult | None) -> None:
        """Records the score of a final record."""
        self._scores[attempt] = None if result is None else score_of_result(result)

    def scores(self) -> tuple[float | None, ...]:
        """Returns the scores of the current round, which is finished and read."""
        return tuple([self._scores[name] for name in self._current_names()])

    def past_scores(self) -> Iterator[tuple[str, float | None]]:
        """Yields the attempts of earlier rounds with the scores on which the next rounds were decided."""
        for task, scores in enumerate(self._past_scores):
            for number, score in enumerate(scores):
                yield self._name(task, number), score

    def _current_names(self) -> Iterator[str]:
        return map(self._name, self._current, self._current_numbers)

    def decide(self) -> list[Grant]:
        """Returns the grants of the next round, by the policy."""
        scores, rounds = [list(past) for past in self._past_scores], [list(past) for past in self._past_rounds]
        for task, score in zip(self._current, self.scores(), strict=True):
            scores[task].append(score)
            rounds[task].append(self.rounds - 1)
        levels = self.run.levels or [0] * len(scores)
        tasks = [TaskHistory(tuple(a), tuple(b), level) for a, b, level in zip(scores, rounds, levels, strict=True)]
        return list(self.run.policy.grants(tasks, self.left))

    def adopt(self, attempt: str, agent: str) -> None:
        """Records that an agent holds an attempt, unless another one does."""
        one = self._open.get(attempt)
        if one is not None and one.holder is None:
            one.holder = agent
            self.leased += 1
            self.queue.discard(attempt)

    def waiting(self) -> int:
        """Returns how many attempts may be leased now."""
        allowed = affordable_attempts(self.run.budget, self.used, self.ended, self.leased)
        return len(self.queue) if allowed is None else min(len(self.queue), allowed)

    def take(self, agent: str, node: NodeResources, count: int) -> list[Lease]:
        """Leases up to `count` waiting attempts to an agent."""
        leases = []
        for attempt in self.queue.take(node, count):
            one = self._open[attempt]
            one.holder = agent
            self.leased += 1
            leases.append(self._lease(attempt, one))
        return leases

    def _lease(self, attempt: str, one: _OpenAttempt) -> Lease:
        planned = one.planned = self._plan(one.task, one.number, self.rounds - 1)
        if planned.id != attempt:
            raise AssertionError(f"{attempt!r} was planned as {planned.id!r}")
        wall_s = planned.limits.wall_s or self.run.wall_s
        return Lease(
            run=self.run.name,
            epoch=self.epoch,
            attempt=attempt,
            task=planned.loaded.task.id,
            number=planned.number,
            seed=planned.seed,
            round=max(0, self.rounds - 1),
            retry=one.retry,
            may_retry=one.retry < self.run.retries,
            start_within_s=self._times.start_within_s,
            lifetime_s=wall_s + self._times.grace_s,
        )

    def planned(self, attempt: str) -> PlannedAttempt | None:
        """Returns an attempt of the current round; None if it has a final record."""
        one = self._open.get(attempt)
        return None if one is None else one.planned or self._plan(one.task, one.number, self.rounds - 1)

    def release(self, attempt: str, agent: str) -> None:
        """Makes an attempt wait again if this agent holds it and it is open."""
        one = self._open.get(attempt)
        if one is not None and one.holder == agent:
            one.holder = one.planned = None
            self.leased -= 1
            self.queue.put_back(attempt, self._requirements[one.task])

    def hold_back(self, attempt: str, agent: str) -> None:
        """Ends an agent's lease; the attempt waits again only when `resume` is called."""
        one = self._open.get(attempt)
        if one is not None and one.holder == agent:
            one.holder = ""

    def resume(self, attempt: str) -> None:
        """Makes an attempt wait again after `hold_back`."""
        self.release(attempt, "")

    def add_use(self, token: str, use: ModelUse) -> None:
        """Adds the model use of one trial, unless it was added before. Without a budget nothing is counted."""
        if not self.run.budget.is_unlimited and token not in self._used_tokens:
            self._used_tokens.add(token)
            self.used = add_use(self.used, use)
            self.ended += 1

    def add_end(self, end: TrialEnd, agent: str) -> int | None:
        """Records the end of a lease of an agent.

        Returns:
            The number of earlier trials if the attempt waits for another trial until `resume`; else None.

        Raises:
            StoreError: Too many trials of the attempt ended without a record.
        """
        if end.ending != "returned":
            self.add_use(end.token, end.use)
        one = self._open.get(end.attempt)
        if one is None:
            return None
        if end.ending in ("final", "superseded"):
            self._close(end.attempt)
            if end.result is not None:
                self.add_score(end.attempt, end.result)
            return None
        if one.holder != agent:
            return None
        if end.ending in ("returned", "interrupted"):
            self.release(end.attempt, agent)
            return None
        one.crashes += end.ending == "crashed"
        if one.crashes > MOST_CRASHES:
            raise StoreError(f"{one.crashes} trials of {end.attempt!r} of run {self.run.name!r} left no record")
        self.hold_back(end.attempt, agent)
        one.retry += 1
        return one.retry

    def _close(self, attempt: str) -> None:
        one = self._open.pop(attempt)
        if one.holder is not None:
            self.leased -= 1
        self.queue.discard(attempt)


def score_of_result(result: TrialResult) -> float | None:
    """Returns a trial's score; None without an outcome."""
    if result.outcome not in ("pass", "fail"):
        return None
    return result.score if result.score is not None else float(result.outcome == "pass")
