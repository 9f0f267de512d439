"""Attempts that begin in the middle: where from a recorded state some continuations win and some lose.

After TRACE (rollout allocation over prompt roots and turn prefixes; the abstract alone was seen): anchors are the
starts of tasks and the states that attempts passed through, valued by `p (1 - p)` with a success predictor that all
anchors share. Ours is a Beta posterior: attempts through a state count for it, and its prior is the task's own rate,
whose prior is the run's.

A fork begins in a snapshot of the state, rebuilt by doing the recorded prefix again; it is begun only where every
state on the way is the recorded one. Its record names the attempt, the prefix and the state (`fork` in what its first
event tells), its agent is called `fork+NAME`, so that no success rate mixes the two, and its group is that of its
anchor.

Not covered: what an agent did beside its steps, and programs that still run in a sandbox. Such attempts give no
anchors.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

import msgspec

from assay.rollout.schedule.allocation import Anchor, Grant, Path, Seen, Uniform, UniformOptions

__all__ = ["AnchorSeen", "Forks", "ForksOptions", "anchors_of", "predicted"]

Count = Annotated[int, msgspec.Meta(ge=1)]


class ForksOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `forks`. The source leaves them open; ours were chosen by simulation."""

    first: Count = 4
    """Attempts at each task from its start, in the first round."""
    group: Count = 4
    """Attempts from one anchor at once."""
    step: Count = 1
    """Anchors of a round, as a multiple of the number of tasks, halved."""
    prior: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    """How many attempts what is known of the whole counts for, at a part."""
    most: Count = 16
    """Attempts that one anchor gets at most."""


class AnchorSeen(NamedTuple):
    """A state that attempts at one task passed through, or (state None) its start."""

    task: int
    state: str | None
    passed: float
    attempts: int
    """That went on from it, with a score."""
    granted: int = 0
    """Forks that began in it."""
    at: Anchor | None = None
    """One place to begin from: the attempt with the shortest way to it."""


class Forks:
    """See the module."""

    wants_paths = True

    def __init__(self, options: ForksOptions) -> None:
        self._options = options

    def grants(self, seen: Sequence[Seen], left: int) -> Sequence[Grant]:
        """See `Policy.grants`. Of one task, one anchor a round: neighbours on a way are much the same."""
        options = self._options
        if any(len(one.scores) < options.first for one in seen):
            missing = sum(max(0, options.first - len(one.scores)) for one in seen)
            return Uniform(UniformOptions()).grants(seen, min(left, missing))
        valued = sorted(self._valued(seen), key=lambda pair: (-pair[0], pair[1].task, pair[1].state or ""))
        chosen: dict[int, Grant] = {}
        for _, anchor in valued:
            if len(chosen) >= max(1, options.step * len(seen) // 2) or left <= 0:
                break
            if anchor.task not in chosen:
                number = min(options.group, left)
                chosen[anchor.task] = Grant(anchor.task, number, anchor.at)
                left -= number
        return list(chosen.values())

    def _valued(self, seen: Sequence[Seen]) -> Iterator[tuple[float, AnchorSeen]]:
        everything = [score for one in seen for score in one.known]
        overall = _rate(everything, 0.5, self._options.prior)
        for task, one in enumerate(seen):
            rate = _rate(one.known, overall, self._options.prior)
            for anchor in anchors_of(task, one):
                if anchor.granted >= self._options.most and anchor.state is not None:
                    continue
                a, b = predicted(anchor, overall if anchor.state is None else rate, self._options.prior)
                yield a * b / ((a + b) * (a + b + 1.0)), anchor


def _rate(scores: Sequence[float], prior: float, weight: float) -> float:
    return (math.fsum(scores) + prior * weight) / (len(scores) + weight)


def predicted(anchor: AnchorSeen, rate: float, weight: float) -> tuple[float, float]:
    """The Beta posterior (a, b) of success from an anchor, where what it is a part of succeeds at `rate`."""
    return anchor.passed + weight * rate, anchor.attempts - anchor.passed + weight * (1.0 - rate)


def anchors_of(task: int, seen: Seen) -> list[AnchorSeen]:
    """The start of a task, and every state in the middle of its attempts; an end is no place to begin."""
    found: dict[str | None, AnchorSeen] = {
        None: AnchorSeen(task, None, math.fsum(seen.known), len(seen.known), len(seen.scores))
    }
    ways: dict[str, list[tuple[Path, int]]] = defaultdict(list)
    ends = {path.states[-1] for path in seen.paths if path.states}
    for path in seen.paths:
        for state, steps in _firsts(path.states):
            if state not in ends:
                ways[state].append((path, steps))
    begun = _begun(seen.paths)
    for state, several in ways.items():
        scores = [path.score for path, _ in several if path.score is not None]
        scores += [path.score for path in begun.get(state, ()) if path.score is not None]
        whole = [(steps, path.chain) for path, steps in several if path.forked is None]
        if whole:
            steps, chain = min(whole)
            anchor = Anchor(chain, steps, state)
            forks = len(begun.get(state, ()))
            found[state] = AnchorSeen(task, state, math.fsum(scores), len(scores), forks, anchor)
    return list(found.values())


def _firsts(states: Iterable[str | None]) -> Iterator[tuple[str, int]]:
    """Each state with how many steps led to it for the first time."""
    known = set()
    for steps, state in enumerate(states, 1):
        if state is not None and state not in known:
            known.add(state)
            yield state, steps


def _begun(paths: Sequence[Path]) -> dict[str, list[Path]]:
    """Forks by the state that they began in."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        if path.forked is not None:
            found[path.forked].append(path)
    return found
