"""The check `state`: the net changes of a world of services against the outcomes that are acceptable.

Any path passes that leads to an acceptable outcome: each required change is there, in exactly the wanted columns, and
nothing else has changed. Requirements are labelled by what doing nothing scores: a required change is missed by doing
nothing, the absence of other changes is kept by doing nothing.

An outcome's placeholders (`{"$new": name}`) stand for identifiers that the world generates: one assignment must make
all rows fit. The agent sent typed arguments, and nothing that it wrote was executed: the grade is `no-agent-code`.

Covered: added rows in another order, permitted and free columns, columns without regard to case, several outcomes; more
rows than any outcome has are a fail, however many. Not covered: an outcome that the task's author did not think of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from assay.environments.services.net_changes import RowChange
from assay.environments.services.outcome import NEW, ExpectedChange, fold_case, fold_expected_case
from assay.errors import TaskError
from assay.verify._change_matching import match_changes
from assay.verify._ruling import Ruling
from assay.verify._world_check import make_result, read_parameters, refuse_workspace
from assay.verify.cited_evidence import CitedEvidence
from assay.verify.interface import CheckInput, CheckResult, WorldInput

MOST_SHOWN: Final = 200
"""Requirements and changes that evidence lists."""


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


class OutcomeMatch(NamedTuple):
    """The best assignment of observed to wanted changes."""

    requirements: tuple[Requirement, ...]
    assigned: frozenset[int]
    """Positions of the observed changes that are wanted ones."""

    @property
    def score(self) -> float:
        return sum(found.held for found in self.requirements) / len(self.requirements)

    @property
    def passed(self) -> bool:
        return all(found.held for found in self.requirements)


class BestMatch(NamedTuple):
    """The outcome to which changes come nearest."""

    observed: list[RowChange]
    """The changes that are judged."""
    outcome: Outcome
    match: OutcomeMatch


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
        observed, outcome, match = find_best_match(parameters, changes)
        name = outcome.name
        cited.add("state", "state_difference", _evidence(observed, match, name))
        if match.passed:
            kept = sum(found.null_holds for found in match.requirements)
            reason = f"all {len(match.requirements)} requirements hold ({kept} of them by doing nothing)"
            return Ruling("pass", 1.0, reason + (f": {name}" if name else ""))
        broken = [found.text for found in match.requirements if not found.held]
        more = f"; and {len(broken) - 3} more" if len(broken) > 3 else ""
        return Ruling("fail", match.score, f"{'; '.join(broken[:3])}{more}")


def find_best_match(parameters: StateParameters, changes: Iterable[RowChange]) -> BestMatch:
    """Returns the match of the outcome that passes, else of the one with the best score; of equal ones, the first.

    Raises:
        TaskError: Even a right attempt has too many possible assignments.
    """
    caseless = frozenset(parameters.caseless)
    observed = fold_case((change for change in changes if change.table not in parameters.ignored), caseless)
    matches = [
        match_outcome([fold_expected_case(change, caseless) for change in outcome.changes], observed)
        for outcome in parameters.outcomes
    ]
    best = max(range(len(matches)), key=lambda at: (matches[at].passed, matches[at].score, -at))
    return BestMatch(observed, parameters.outcomes[best], matches[best])


def match_outcome(wanted: Sequence[ExpectedChange], observed: Sequence[RowChange]) -> OutcomeMatch:
    """Returns the requirements of an outcome under the best assignment of observed changes to wanted ones.

    Raises:
        TaskError: Even a right attempt has too many possible assignments.
    """
    assigned = match_changes(wanted, observed)
    requirements = [
        Requirement(_wanted_text(change), at in assigned, False)
        for at, change in enumerate(wanted)
        if not change.optional
    ]
    used = set(assigned.values())
    others = [change for at, change in enumerate(observed) if at not in used]
    shown = ", ".join(_observed_text(change) for change in others[:3])
    text = f"nothing else changes (but {shown})" if others else "nothing else changes"
    return OutcomeMatch((*requirements, Requirement(text, not others, True)), frozenset(used))


def _wanted_text(change: ExpectedChange) -> str:
    key = " ".join(str(part[NEW]) if isinstance(part, dict) else str(part) for part in change.key)
    values = ", ".join(
        f"{name} {value[NEW] if isinstance(value, dict) else value}" for name, value in change.values.items()
    )
    return f"{change.table} {key} is {change.kind}" + (f" ({values})"[:300] if values else "")


def _observed_text(change: RowChange) -> str:
    kind = "added" if change.before is None else "removed" if change.after is None else "changed"
    return f"{change.table} {' '.join(map(str, change.key))} is {kind}"[:200]


def _evidence(observed: Sequence[RowChange], match: OutcomeMatch, name: str) -> dict[str, Any]:
    requirements = [
        {"requirement": found.text, "held": found.held, "null_holds": found.null_holds}
        for found in match.requirements[:MOST_SHOWN]
    ]
    changes = [msgspec.to_builtins(change) for change in observed[:MOST_SHOWN]]
    return {"outcome": name, "requirements": requirements, "changes": changes, "count": len(observed)}
