"""Wasted acts of an attempt.

After AgentLens (arXiv 2605.12925): blind retries, regressions (from implementing back to exploring before the next
implementing), redundant acts, late exploration, and cycles. Acts that the reference shares are no waste. An act counts
once. The published comparison with the reference is known only in outline; the agreement of ours is in the reference
page of these measures.

Range: wasted acts over all, in [0, 1]. Misleading: looking again after a failed change is good practice and a
regression here; without a reference all of it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec

from .alignment import Pair
from .stages import Stage
from .states import State
from .workflow import retries

WasteKind = Literal["retry", "regression", "redundant", "unnecessary", "cycle"]
_NEAR = 3
_SHORTEST, _LONGEST = 2, 4


class Pattern(msgspec.Struct, frozen=True):
    """One occurrence of waste: positions of the wasted acts."""

    kind: WasteKind
    positions: tuple[int, ...]


class Waste(msgspec.Struct, frozen=True):
    """All waste of an attempt."""

    patterns: tuple[Pattern, ...]
    wasted: tuple[int, ...]
    """Positions, each once."""
    severity: float
    """Returns the share of wasted acts."""

    def count(self, kind: WasteKind) -> int:
        """Returns the number of occurrences of a kind."""
        return sum(each.kind == kind for each in self.patterns)


class _Span(NamedTuple):
    made_of: tuple[object, ...]
    positions: tuple[int, ...]


def waste_of(
    states: Sequence[State], reference: Sequence[State] | None = None, pairs: Sequence[Pair] | None = None
) -> Waste:
    """Returns the waste of one attempt.

    With `pairs`, the matching positions of the attempt and a reference path, an act without a partner is redundant near
    a matched act of the same tool and file; otherwise, an act that repeats an equal one without a write in between.
    """
    found: list[Pattern] = []
    finders: tuple[tuple[WasteKind, Callable[[Sequence[State]], Iterator[_Span]]], ...] = (
        ("retry", _retries),
        ("regression", _regressions),
        ("cycle", _cycles),
    )
    for kind, spans in finders:
        known = set() if reference is None else {each.made_of for each in spans(reference)}
        found += [Pattern(kind, each.positions) for each in spans(states) if each.made_of not in known]
    redundant = _repeated(states) if pairs is None else _beside_a_match(states, pairs)
    found += [Pattern("redundant", (each,)) for each in redundant]
    if reference is not None:
        found += [Pattern("unnecessary", (each,)) for each in _unnecessary(states, reference)]
    wasted = tuple(sorted({position for each in found for position in each.positions}))
    return Waste(tuple(found), wasted, len(wasted) / len(states) if states else 0.0)


def _key(state: State) -> tuple[str, str, Stage]:
    return state.tool, state.file, state.stage


def _retries(states: Sequence[State]) -> Iterator[_Span]:
    """Yields runs of similar acts, from the third on; the reference's are recognised by tool, file and stage."""
    run: list[int] = []
    for position in retries(states):
        if run and position != run[-1] + 1:
            yield _Span(_key(states[run[0]]), tuple(run))
            run = []
        run.append(position)
    if run:
        yield _Span(_key(states[run[0]]), tuple(run))


def _regressions(states: Sequence[State]) -> Iterator[_Span]:
    """Yields spans from the first exploring act between two implementing ones to the second; recognised by stages."""
    changes = [position for position, state in enumerate(states) if state.stage == "implement"]
    for first, second in pairwise(changes):
        back = next((n for n in range(first + 1, second) if states[n].stage == "explore"), None)
        if back is not None:
            stages = tuple(state.stage for state in states[first : second + 1])
            yield _Span(stages, tuple(range(back, second)))


def _cycles(states: Sequence[State]) -> Iterator[_Span]:
    keys = [_key(state) for state in states]
    for start, length, rounds in cycles(keys):
        yield _Span(tuple(keys[start : start + length]), tuple(range(start + length, start + length * rounds)))


def cycles(keys: Sequence[Hashable]) -> Iterator[tuple[int, int, int]]:
    """Yields sequences of 2 to 4 acts, not all equal, repeated at once: start, length, rounds.

    The one that reaches furthest counts, then the shortest; none overlap.
    """
    start = 0
    while start < len(keys):
        best = (start, 0, 0)
        for length in range(_SHORTEST, _LONGEST + 1):
            unit, rounds = keys[start : start + length], 1
            if len(set(unit)) < 2:
                continue
            while keys[start + rounds * length : start + (rounds + 1) * length] == unit:
                rounds += 1
            if rounds > 1 and rounds * length > best[1] * best[2]:
                best = (start, length, rounds)
        if best[2]:
            yield best
        start += max(1, best[1] * best[2])


def _repeated(states: Sequence[State]) -> Iterator[int]:
    """Yields acts equal to an earlier one without a write in between."""
    seen: set[State] = set()
    for position, state in enumerate(states):
        if state.stage == "implement" or state.kind == "edit":
            seen.clear()
        elif state.kind in ("think", "say", "finish") or not (state.what or state.file):
            continue
        elif state in seen:
            yield position
        seen.add(state)


def _beside_a_match(states: Sequence[State], pairs: Sequence[Pair]) -> Iterator[int]:
    matched = {pair.left for pair in pairs}
    for position, state in enumerate(states):
        near = range(max(0, position - _NEAR), min(len(states), position + _NEAR + 1))
        if position not in matched and any(
            n in matched and (states[n].tool, states[n].file) == (state.tool, state.file) for n in near
        ):
            yield position


def _unnecessary(states: Sequence[State], reference: Sequence[State]) -> Iterator[int]:
    """Yields late exploration of files that the reference never looks at, where the reference explores no more."""
    changed = False
    files = {state.file for state in reference}
    for position, state in enumerate(states):
        changed = changed or state.stage == "implement"
        if not changed or state.stage != "explore" or not state.file or state.file in files or not reference:
            continue
        there = reference[min(len(reference) - 1, position * len(reference) // len(states))]
        if there.stage != "explore":
            yield position
