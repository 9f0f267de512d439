"""The clauses of an instruction, each with what judges it, and which of them an attempt fulfilled.

A clause is a request of the plan, a rule of the policy, or "nothing else". A request is tied to the row changes that
its own write makes when the plan is played (a row that two requests change is tied to both), to its answer, or to its
refusal; a rule to itself; "nothing else" to the absence of other changes. Nothing is judged anew: the recorded facts
are matched to the task's own checks, as `state`, `answer` and `policy` do.

Covered: tasks of services with a plan. Not covered: whether a clause is said well; other plans whose outcome the task
accepts are tied by the rows that they share with this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from assay.environments.services.net_changes import RowChange
from assay.environments.services.outcome import ExpectedChange, expected_changes, fold_case, fold_expected_case
from assay.environments.services.plans import PlannedCall
from assay.environments.services.ticket import answer_question, decline_request
from assay.errors import TaskError
from assay.records import Check, Trajectory, canonical_bytes
from assay.verify.interface import WorldInput
from assay.verify.logged_calls import recorded_calls, trace_of_calls
from assay.verify.service_checks import PolicyParameters, rule_results
from assay.verify.state_check import StateParameters, match_outcome

from .planned import PlannedTask

ClauseKind = Literal["request", "answer", "refusal", "rule", "nothing else"]
NOTHING_ELSE: Final = "nothing else"


class Clause(NamedTuple):
    """A part of an instruction and what judges it."""

    kind: ClauseKind
    name: str
    """Action, rule, or number of a question."""
    text: str
    tied_to: tuple[str, ...]
    """Requirements that judge it; empty if nothing does."""


class ClauseResult(NamedTuple):
    """A clause in an attempt."""

    clause: Clause
    met: bool | None
    """None where nothing judges it or the record does not say."""
    missing: tuple[str, ...]
    """Requirements that do not hold."""


class _Tie(NamedTuple):
    act: int
    change: tuple[str, str, bytes]


class ClauseReader:
    """Ties the clauses of one task to its checks. Raises `TaskError` for checks with invalid parameters."""

    def __init__(self, planned: PlannedTask) -> None:
        self._planned = planned
        self._checks = {check.kind: check for check in planned.task.checks}
        self._state = _parameters(self._checks.get("state"), StateParameters)
        self._policy = _parameters(self._checks.get("policy"), PolicyParameters)
        self._ties = list(self._tie())
        self._outcomes = [
            [change for change in outcome.changes if not change.optional]
            for outcome in (self._state.outcomes if self._state is not None else ())
        ]

    def clauses(self) -> tuple[Clause, ...]:
        """Returns the clauses, with what judges each: of the first acceptable outcome."""
        return tuple(one.clause for one in self._requests(0, None)) + tuple(one.clause for one in self._others(None))

    def results(self, trajectory: Trajectory) -> tuple[ClauseResult, ...]:
        """Returns which clauses an attempt fulfilled, by its recorded facts."""
        facts = next((e.data.get("facts") for e in reversed(trajectory.evidence) if e.kind == "facts"), None)
        if not isinstance(facts, dict):
            return tuple(ClauseResult(clause, None, ()) for clause in self.clauses())
        at, held = self._match(facts)
        answers = next((e.data.get("questions") for e in trajectory.evidence if e.kind == "answers"), None)
        return (*self._requests(at, held, _graded(answers)), *self._others(held, facts, trajectory))

    def _tie(self) -> Iterable[_Tie]:
        """Yields each change that an act of the plan makes or makes otherwise."""
        world, acts = self._planned.world.fork(), list(self._planned.acts)
        before = _net(world.database.changes(judged_only=True))
        touched: list[tuple[int, tuple[str, bytes]]] = []
        for call in self._planned.plan:
            world.act(call.action, call.arguments)
            after = _net(world.database.changes(judged_only=True))
            if call in acts:
                place = next(n for n, act in enumerate(self._planned.acts) if act == call)
                keys = before.keys() | after.keys()
                touched += [(place, key) for key in sorted(keys) if before.get(key) != after.get(key)]
            before = after
        final = world.database.changes(judged_only=True)
        wanted = expected_changes(world.composition.tables, final)
        by_row = {_row(change): _change_key(one) for change, one in zip(final, wanted, strict=True)}
        for place, key in touched:
            if key in by_row:
                yield _Tie(place, by_row[key])

    def _match(self, facts: Mapping[str, Any]) -> tuple[int, Sequence[bool] | None]:
        """Returns the acceptable outcome that fits best, and which of its requirements hold; None if undecidable."""
        state = self._state
        if state is None or not state.outcomes:
            return 0, None
        try:
            changes = msgspec.convert(facts.get("changes"), tuple[RowChange, ...])
        except msgspec.ValidationError:
            return 0, None
        caseless = frozenset(state.caseless)
        observed = fold_case((one for one in changes if one.table not in state.ignored), caseless)
        matches = [
            match_outcome([fold_expected_case(one, caseless) for one in outcome.changes], observed)
            for outcome in state.outcomes
        ]
        best = max(range(len(matches)), key=lambda at: (matches[at].passed, matches[at].score, -at))
        return best, [found.held for found in matches[best].requirements]

    def _requests(
        self, outcome: int, held: Sequence[bool] | None, answers: Mapping[int, bool] | None = None
    ) -> Iterable[ClauseResult]:
        wanted = self._outcomes[outcome] if self._outcomes else []
        for number, act in enumerate(self._planned.acts):
            if act.action == answer_question.__name__:
                question = int(act.arguments.get("request", 0))
                name = f"question {question}"
                clause = Clause("answer", name, f"answer {name}", (name,))
                met = None if answers is None else answers.get(question)
                yield ClauseResult(clause, met, () if met is not False else clause.tied_to)
                continue
            tied = {tie.change for tie in self._ties if tie.act == number}
            places = [at for at, change in enumerate(wanted) if _change_key(change) in tied]
            texts = tuple(_change_text(wanted[at]) for at in places)
            kind: ClauseKind = "refusal" if act.action == decline_request.__name__ else "request"
            clause = Clause(kind, act.action, self._text(act), texts)
            if held is None or not places:
                yield ClauseResult(clause, None, ())
                continue
            missing = tuple(text for at, text in zip(places, texts, strict=True) if not held[at])
            yield ClauseResult(clause, not missing, missing)

    def _others(
        self, held: Sequence[bool] | None, facts: dict[str, Any] | None = None, trajectory: Trajectory | None = None
    ) -> Iterable[ClauseResult]:
        if self._state is not None:
            clause = Clause(NOTHING_ELSE, NOTHING_ELSE, "change nothing else", ("nothing else changes",))
            met = None if held is None else held[-1]
            yield ClauseResult(clause, met, () if met is not False else clause.tied_to)
        if self._policy is None:
            return
        check = self._checks["policy"]
        calls = None
        if facts is not None and trajectory is not None:
            calls = recorded_calls(WorldInput(self._planned.task, check, facts, None, transcript=lambda: trajectory))
        known = {} if calls is None else {r.name: r.status for r in rule_results(self._policy.contracts, calls, "it")}
        for name in self._rules():
            status = known.get(name)
            met = {"pass": True, "fail": False}.get(status or "")
            clause = Clause("rule", name, f"keep the rule {name}", (name,))
            yield ClauseResult(clause, met, (name,) if met is False else ())

    def _rules(self) -> list[str]:
        contracts = () if self._policy is None else self._policy.contracts
        return [one.name for one in rule_results(contracts, trace_of_calls(()), "the policy")]

    def _text(self, act: PlannedCall) -> str:
        wish = self._planned.wish(act)
        return wish.text if wish is not None else f"{act.action} {canonical_bytes(act.arguments).decode()}"[:200]


def _parameters(check: Check | None, kind: type[Any]) -> Any:
    """Returns the parameters of a check; None without one. Raises `TaskError`."""
    if check is None:
        return None
    try:
        return msgspec.convert(check.parameters, kind)
    except msgspec.ValidationError as exc:
        raise TaskError(f"check {check.name!r}: {exc}") from exc


def _row(change: RowChange) -> tuple[str, bytes]:
    return change.table, canonical_bytes(change.key)


def _net(changes: Iterable[RowChange]) -> dict[tuple[str, bytes], bytes]:
    return {_row(change): canonical_bytes(change.after) for change in changes}


def _change_key(change: ExpectedChange) -> tuple[str, str, bytes]:
    return change.table, change.kind, canonical_bytes(change.key)


def _change_text(change: ExpectedChange) -> str:
    key = " ".join(next(iter(part.values())) if isinstance(part, dict) else str(part) for part in change.key)
    return f"{change.table} {key} is {change.kind}"


def _graded(questions: object) -> dict[int, bool] | None:
    """Returns whether each answer was right, by number, from the evidence of the check `answer`."""
    if not isinstance(questions, list | tuple):
        return None
    graded = [one for one in questions if isinstance(one, Mapping) and isinstance(one.get("request"), int)]
    return {one["request"]: one.get("problem") == "" for one in graded}
