"""Assigns observed changes of a world to the changes that an outcome wants.

An agent chooses the observed changes, and a task the wanted ones. Where no assignment can fit everything, which is
decided in polynomial time, the assignment is the best one found within a number of steps; the agent's changes cannot
make it an error.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from assay.environments.services.net_changes import RowChange
from assay.environments.services.outcome import NEW, ExpectedChange, Kind, Value
from assay.errors import TaskError

MOST_STEPS: Final = 20_000
"""Comparisons of a search for an assignment."""
_ORDERS: Final = 3
"""Orders of the wanted changes themselves in which a search is tried, to find out whether the task is ambiguous."""

_Bound = tuple[dict[str, Value], dict[Value, str]]
"""Values of placeholders by name, and the reverse."""


def match_changes(wanted: Sequence[ExpectedChange], observed: Sequence[RowChange]) -> dict[int, int]:
    """Returns the position of an observed change by the position of the wanted one.

    An assignment that fulfils the outcome is found if there is one. Otherwise, the assignment has the most required
    changes, and of those assignments the most optional ones, as far as `MOST_STEPS` comparisons can tell.

    Raises:
        TaskError: A right attempt at this outcome has too many possible assignments.
    """
    candidates = _candidates(wanted, observed)
    if _may_fulfil(wanted, observed, candidates):
        search = _Search(wanted, observed, candidates)
        found = search.run(complete=True)
        if found is not None:
            return found
        if search.is_cut and _is_ambiguous(wanted):
            raise TaskError("the wanted changes are too similar to be matched: name their values")
    return _Search(wanted, observed, candidates).run() or {}


def _candidates(wanted: Sequence[ExpectedChange], observed: Sequence[RowChange]) -> list[list[int]]:
    """Returns, for each wanted change, the observed changes that fit it if nothing else is assigned."""
    by_kind: dict[tuple[str, Kind], list[int]] = {}
    for at, found in enumerate(observed):
        by_kind.setdefault((found.table, _kind(found)), []).append(at)
    empty: _Bound = ({}, {})
    return [
        [at for at in by_kind.get((change.table, change.kind), ()) if _fit(change, observed[at], empty) is not None]
        for change in wanted
    ]


def _may_fulfil(
    wanted: Sequence[ExpectedChange], observed: Sequence[RowChange], candidates: Sequence[Sequence[int]]
) -> bool:
    """Returns False if no assignment can have all required changes and leave no observed change over, even if
    placeholders restrict nothing."""
    asked = Counter((change.table, change.kind) for change in wanted)
    if Counter((found.table, _kind(found)) for found in observed) - asked:
        return False
    takers: list[list[int]] = [[] for _ in observed]
    for at, fitting in enumerate(candidates):
        for number in fitting:
            takers[number].append(at)
    # Matchings that cover each side alone can be combined into one that covers both (Mendelsohn and Dulmage, 1958).
    required = (fitting for change, fitting in zip(wanted, candidates, strict=True) if not change.optional)
    return _is_matchable(required) and _is_matchable(takers)


def _is_matchable(choices: Iterable[Sequence[int]]) -> bool:
    """Returns whether each list can give a number that no other list gives."""
    lists = list(choices)
    chosen: dict[int, int] = {}
    owner: dict[int, int] = {}
    for start in range(len(lists)):
        reached: dict[int, int] = {}
        queue, end = [start], None
        for at in queue:  # grows while it is read
            for number in lists[at]:
                if number in reached:
                    continue
                reached[number] = at
                if number not in owner:
                    end = number
                    break
                queue.append(owner[number])
            if end is not None:
                break
        if end is None:
            return False
        while end is not None:
            at = reached[end]
            owner[end], given_up = at, chosen.get(at)
            chosen[at], end = end, given_up
    return True


def _is_ambiguous(wanted: Sequence[ExpectedChange]) -> bool:
    """Returns whether even the changes that the outcome describes, in some order, are not found in time."""
    ideal = [_ideal(change) for change in wanted]
    for number in range(_ORDERS):
        ordered = ideal[::-1] if number == 0 else random.Random(number).sample(ideal, len(ideal))
        search = _Search(wanted, ordered, _candidates(wanted, ordered))
        search.run(complete=True)
        if search.is_cut:
            return True
    return False


def _ideal(change: ExpectedChange) -> RowChange:
    """Returns a change that is the wanted one, with a value of its own for each placeholder."""

    def value(wanted: Value) -> Any:
        return f"{NEW} {wanted[NEW]}" if isinstance(wanted, dict) else wanted

    after = {name: value(wanted) for name, wanted in change.values.items()}
    before: dict[str, str | int | None] = dict.fromkeys(after, f"{NEW} before")
    return RowChange(
        change.table,
        tuple(value(part) for part in change.key),
        None if change.kind == "added" else before,
        None if change.kind == "removed" else after,
    )


class _Search:
    """Backtracking over the wanted changes; each takes an observed change that fits, or none.

    The next change is the one with the fewest placeholders that are open, so that references are followed first.
    """

    def __init__(
        self, wanted: Sequence[ExpectedChange], observed: Sequence[RowChange], candidates: Sequence[Sequence[int]]
    ) -> None:
        self._wanted = wanted
        self._observed = observed
        self._candidates = candidates
        required = sum(not change.optional for change in wanted)
        self._weights = [1 if change.optional else len(wanted) for change in wanted]
        self._most = required * len(wanted) + min(len(wanted) - required, max(0, len(observed) - required))
        self._placeholders = [_placeholders(change) for change in wanted]
        self._best: dict[int, int] | None = None
        self._best_weight = -1
        self._steps = 0

    @property
    def is_cut(self) -> bool:
        """True if the search ended at `MOST_STEPS`."""
        return self._steps > MOST_STEPS

    def run(self, *, complete: bool = False) -> dict[int, int] | None:
        """Returns the best assignment found; with `complete`, None if none was found that has everything."""
        if complete:
            self._best_weight = self._most - 1
        self._descend(frozenset(range(len(self._wanted))), sum(self._weights), {}, ({}, {}))
        return self._best

    def _descend(self, remaining: frozenset[int], possible: int, assigned: dict[int, int], bound: _Bound) -> bool:
        """Returns True if the search can end. `possible` is the weight if all remaining changes are found."""
        weight = sum(self._weights[at] for at in assigned)
        if weight > self._best_weight:
            self._best, self._best_weight = assigned, weight
        if self._best_weight == self._most:
            return True
        if possible <= self._best_weight:
            return False
        at = min(remaining, key=lambda number: self._rank(number, bound))
        change, rest, used = self._wanted[at], remaining - {at}, set(assigned.values())
        for number in self._candidates[at]:
            if number in used:
                continue
            self._steps += 1
            if self.is_cut:
                return True
            fitted = _fit(change, self._observed[number], bound)
            if fitted is None:
                continue
            if self._descend(rest, possible, {**assigned, at: number}, fitted):
                return True
            # Without placeholders it fits this one row, and restricts no other change.
            if not change.optional and not self._placeholders[at]:
                return False
        return self._descend(rest, possible - self._weights[at], assigned, bound)

    def _rank(self, at: int, bound: _Bound) -> tuple[bool, int, int, int]:
        missing = sum(name not in bound[0] for name in self._placeholders[at])
        return self._wanted[at].optional, missing, len(self._candidates[at]), at


def _placeholders(change: ExpectedChange) -> frozenset[str]:
    return frozenset(value[NEW] for value in (*change.key, *change.values.values()) if isinstance(value, dict))


def _kind(found: RowChange) -> Kind:
    return "added" if found.before is None else "removed" if found.after is None else "changed"


def _fit(wanted: ExpectedChange, found: RowChange, bound: _Bound) -> _Bound | None:
    """Returns the placeholders' values, and the reverse, if the change is the wanted one; else None."""
    kind = _kind(found)
    if (wanted.table, wanted.kind) != (found.table, kind) or len(wanted.key) != len(found.key):
        return None
    pairs: list[tuple[Value, Value]] = list(zip(wanted.key, found.key, strict=True))
    if found.after is not None:
        changed = _changed_columns(found.before, found.after)
        if not wanted.values.keys() <= found.after.keys():
            return None
        if kind == "changed" and not changed <= wanted.values.keys() | set(wanted.free):
            return None
        pairs += [(value, found.after[name]) for name, value in wanted.values.items()]
    values, names = dict(bound[0]), dict(bound[1])
    for value, actual in pairs:
        if isinstance(value, dict):
            name = value[NEW]
            if values.setdefault(name, actual) != actual or names.setdefault(actual, name) != name:
                return None
        elif type(value) is not type(actual) or value != actual:
            return None
    return values, names


def _changed_columns(before: Mapping[str, Value] | None, after: Mapping[str, Value]) -> set[str]:
    return {name for name, value in after.items() if before is None or before[name] != value}
