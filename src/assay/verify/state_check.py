"""The check `state`: the net changes of a world of services against the outcomes that are acceptable.

Any path passes that leads to an acceptable outcome: each required change is there, in exactly the wanted columns, and
nothing else has changed. Requirements are labelled by what doing nothing scores: a required change is missed by doing
nothing, the absence of other changes is kept by doing nothing.

An outcome's placeholders (`{"$new": name}`) stand for identifiers that the world generates: one assignment must make
all rows fit. The agent sent typed arguments, and nothing that it wrote was executed: the grade is `no-agent-code`.

Covered: added rows in another order, permitted and free columns, columns without regard to case, several outcomes.
Not covered: an outcome that the task's author did not think of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.services.database import RowChange
from assay.environments.services.outcome import NEW, ExpectedChange, Value, fold_case, fold_expected_case
from assay.errors import TaskError
from assay.verify._ruling import Ruling
from assay.verify._world_check import make_result, read_parameters, refuse_workspace
from assay.verify.cited_evidence import CitedEvidence
from assay.verify.interface import CheckInput, CheckResult, WorldInput

MOST_STEPS: Final = 200_000
"""Comparisons of an assignment of placeholders, beyond which the task is too ambiguous to judge."""
MOST_SHOWN: Final = 200
"""Requirements and changes that evidence lists."""


_Bound = tuple[dict[str, Value], dict[Value, str]]
"""Values of placeholders by name, and the reverse."""


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An acceptable outcome."""

    changes: tuple[ExpectedChange, ...] = ()
    name: str = ""


class StateParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the check."""

    outcomes: tuple[Outcome, ...]
    """Acceptable outcomes, one of which must hold; an outcome without changes means that nothing may change."""
    ignored: tuple[str, ...] = ()
    """Tables whose changes are not judged."""
    caseless: tuple[str, ...] = ()
    """Columns in which upper and lower case are equal, as `table.column`; none of a key."""


class Requirement(NamedTuple):
    """One requirement of an outcome."""

    text: str
    held: bool
    null_holds: bool
    """True if doing nothing fulfils it."""


class _Match(NamedTuple):
    """The best assignment of observed to wanted changes."""

    requirements: tuple[Requirement, ...]

    @property
    def score(self) -> float:
        return sum(found.held for found in self.requirements) / len(self.requirements)

    @property
    def passed(self) -> bool:
        return all(found.held for found in self.requirements)


class StateCheck:
    """Compares what changed with what was wanted."""

    kind = "state"

    async def judge(self, given: CheckInput) -> CheckResult:
        """Raises `TaskError`: a sandbox has files, and no rows."""
        refuse_workspace(given)

    async def judge_world(self, given: WorldInput) -> CheckResult:
        cited = CitedEvidence(given.prefix)
        parameters = read_parameters(given, StateParameters)
        if not parameters.outcomes:
            raise TaskError(f"check {given.check.name!r} names no outcome: add [[checks.parameters.outcomes]]")
        return make_result(given, self._rule(parameters, given.facts, cited), cited)

    def _rule(self, parameters: StateParameters, facts: Mapping[str, Any], cited: CitedEvidence) -> Ruling:
        if "changes" not in facts:
            return Ruling("unknown", None, "the world does not report its changes")
        try:
            changes = msgspec.convert(facts["changes"], tuple[RowChange, ...])
        except msgspec.ValidationError as exc:
            return Ruling("unknown", None, f"the world's report of its changes cannot be read: {exc}")
        caseless = frozenset(parameters.caseless)
        observed = fold_case((change for change in changes if change.table not in parameters.ignored), caseless)
        matches = [
            match_outcome([fold_expected_case(change, caseless) for change in outcome.changes], observed)
            for outcome in parameters.outcomes
        ]
        best = max(range(len(matches)), key=lambda at: (matches[at].passed, matches[at].score, -at))
        match = matches[best]
        name = parameters.outcomes[best].name
        cited.add("state", "state_difference", _evidence(observed, match, name))
        if match.passed:
            kept = sum(found.null_holds for found in match.requirements)
            reason = f"all {len(match.requirements)} requirements hold ({kept} of them by doing nothing)"
            return Ruling("pass", 1.0, reason + (f": {name}" if name else ""))
        broken = [found.text for found in match.requirements if not found.held]
        more = f"; and {len(broken) - 3} more" if len(broken) > 3 else ""
        return Ruling("fail", match.score, f"{'; '.join(broken[:3])}{more}")


def match_outcome(wanted: Sequence[ExpectedChange], observed: Sequence[RowChange]) -> _Match:
    """Returns the requirements of an outcome under the best assignment of observed changes to wanted ones.

    Raises:
        TaskError: There are too many possible assignments.
    """
    search = _Search(list(wanted), list(observed))
    assigned = search.run()
    requirements = [
        Requirement(_wanted_text(change), at in assigned, False)
        for at, change in enumerate(wanted)
        if not change.optional
    ]
    used = set(assigned.values())
    others = [change for at, change in enumerate(observed) if at not in used]
    shown = ", ".join(_observed_text(change) for change in others[:3])
    text = f"nothing else changes (but {shown})" if others else "nothing else changes"
    return _Match((*requirements, Requirement(text, not others, True)))


class _Search:
    """Backtracking over the wanted changes; each takes an observed change that fits, or none.

    The best assignment has the most required changes, and of those assignments the most optional ones.
    """

    def __init__(self, wanted: list[ExpectedChange], observed: list[RowChange]) -> None:
        self._wanted = wanted
        self._observed = observed
        # Changes with fewer placeholders come first, because they have fewer rows to choose from.
        self._order = sorted(
            range(len(wanted)), key=lambda at: (wanted[at].optional, _placeholder_count(wanted[at]), at)
        )
        required = sum(not change.optional for change in wanted)
        self._weights = [1 if change.optional else len(wanted) for change in wanted]
        self._remaining = [sum(self._weights[at] for at in self._order[depth:]) for depth in range(len(wanted) + 1)]
        self._most = required * len(wanted) + min(len(wanted) - required, max(0, len(observed) - required))
        self._best: dict[int, int] = {}
        self._best_weight = 0
        self._steps = 0

    def run(self) -> dict[int, int]:
        """Returns the position of an observed change by the position of the wanted one."""
        self._descend(0, 0, {}, ({}, {}))
        return self._best

    def _descend(self, depth: int, weight: int, assigned: dict[int, int], bound: _Bound) -> bool:
        """Returns True if no assignment can be better than the best one, so that the search can end."""
        if weight > self._best_weight:
            self._best, self._best_weight = dict(assigned), weight
        if weight + self._remaining[depth] <= self._best_weight:
            return self._best_weight == self._most
        at = self._order[depth]
        change = self._wanted[at]
        used = set(assigned.values())
        for number, found in enumerate(self._observed):
            self._steps += 1
            if self._steps > MOST_STEPS:
                raise TaskError("the wanted changes are too much alike to be told apart: name their values")
            if number in used:
                continue
            fitted = _fit(change, found, *bound)
            if fitted is None:
                continue
            if self._descend(depth + 1, weight + self._weights[at], {**assigned, at: number}, fitted):
                return True
            # Without placeholders it fits this one row, and restricts no other change.
            if not change.optional and not _placeholder_count(change):
                return False
        return self._descend(depth + 1, weight, assigned, bound)


def _fit(wanted: ExpectedChange, found: RowChange, bound: dict[str, Value], names: dict[Value, str]) -> _Bound | None:
    """Returns the placeholders' values, and the reverse, if the change is the wanted one; else None."""
    kind = "added" if found.before is None else "removed" if found.after is None else "changed"
    if (wanted.table, wanted.kind) != (found.table, kind) or len(wanted.key) != len(found.key):
        return None
    pairs: list[tuple[Value, Value]] = list(zip(wanted.key, found.key, strict=True))
    if found.after is not None:
        before = found.before
        changed = {name for name, value in found.after.items() if before is None or before[name] != value}
        if not wanted.values.keys() <= found.after.keys():
            return None
        if kind == "changed" and not changed <= wanted.values.keys() | set(wanted.free):
            return None
        pairs += [(value, found.after[name]) for name, value in wanted.values.items()]
    bound, names = dict(bound), dict(names)
    for value, actual in pairs:
        if isinstance(value, dict):
            name = value[NEW]
            if bound.setdefault(name, actual) != actual or names.setdefault(actual, name) != name:
                return None
        elif type(value) is not type(actual) or value != actual:
            return None
    return bound, names


def _placeholder_count(change: ExpectedChange) -> int:
    return sum(isinstance(value, dict) for value in (*change.key, *change.values.values()))


def _wanted_text(change: ExpectedChange) -> str:
    key = " ".join(str(part[NEW]) if isinstance(part, dict) else str(part) for part in change.key)
    values = ", ".join(
        f"{name} {value[NEW] if isinstance(value, dict) else value}" for name, value in change.values.items()
    )
    return f"{change.table} {key} is {change.kind}" + (f" ({values})"[:300] if values else "")


def _observed_text(change: RowChange) -> str:
    kind = "added" if change.before is None else "removed" if change.after is None else "changed"
    return f"{change.table} {' '.join(map(str, change.key))} is {kind}"[:200]


def _evidence(observed: Sequence[RowChange], match: _Match, name: str) -> dict[str, Any]:
    requirements = [
        {"requirement": found.text, "held": found.held, "null_holds": found.null_holds}
        for found in match.requirements[:MOST_SHOWN]
    ]
    changes = [msgspec.to_builtins(change) for change in observed[:MOST_SHOWN]]
    return {"outcome": name, "requirements": requirements, "changes": changes, "count": len(observed)}
