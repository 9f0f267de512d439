"""Attempts that start in a recorded state from which some continuations pass and some fail.

After TRACE (rollout allocation over prompt roots and turn prefixes; known from its abstract): anchors are the starts of
tasks and the states that attempts passed through, valued by `p (1 - p)` with a shared success predictor. Ours is a Beta
posterior: attempts through a state count for it; its prior is the task's rate, whose prior is the run's.

A fork starts from a snapshot rebuilt by replaying the recorded prefix, only if every state on the way matches. Its
record names attempt, prefix and state (`fork` in the first event), its agent is called `fork+NAME`, so that no success
rate mixes the two, and its group is that of its anchor.

Not covered: acts outside steps, and running programs. Such attempts give no anchors.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

import msgspec

from assay.rollout.schedule.allocation import Anchor, Grant, StatePath, TaskHistory, Uniform, UniformOptions

Count = Annotated[int, msgspec.Meta(ge=1)]


class ForksOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `forks`. The paper leaves them open; ours were chosen by simulation."""

    first: Count = 4
    """Attempts at each task from its start, in the first round."""
    group: Count = 4
    """Attempts from one anchor at once."""
    step: Count = 1
    """Anchors per round, as a multiple of half the number of tasks."""
    prior: Annotated[float, msgspec.Meta(gt=0)] = 2.0
    """Weight of the prior, in attempts."""
    most: Count = 16
    """Largest number of attempts from one anchor."""


class AnchorStats(NamedTuple):
    """A state that attempts at one task passed through, or (state None) the task's start."""

    task: int
    state: str | None
    passed: float
    attempts: int
    """Scored attempts that continued from it."""
    granted: int = 0
    """Forks that started in it."""
    at: Anchor | None = None
    """One starting point: the attempt with the shortest path to it."""


class Forks:
    """Policy for `forks`."""

    wants_paths = True

    def __init__(self, options: ForksOptions) -> None:
        self._options = options

    def grants(self, histories: Sequence[TaskHistory], left: int) -> Sequence[Grant]:
        """Implements `Policy.grants`. One anchor per task and round: neighbouring states are much the same."""
        options = self._options
        if any(len(one.scores) < options.first for one in histories):
            missing = sum(max(0, options.first - len(one.scores)) for one in histories)
            return Uniform(UniformOptions()).grants(histories, min(left, missing))
        valued = sorted(self._rank_anchors(histories), key=lambda pair: (-pair[0], pair[1].task, pair[1].state or ""))
        chosen: dict[int, Grant] = {}
        for _, anchor in valued:
            if len(chosen) >= max(1, options.step * len(histories) // 2) or left <= 0:
                break
            if anchor.task not in chosen:
                number = min(options.group, left)
                chosen[anchor.task] = Grant(anchor.task, number, anchor.at)
                left -= number
        return list(chosen.values())

    def _rank_anchors(self, histories: Sequence[TaskHistory]) -> Iterator[tuple[float, AnchorStats]]:
        everything = [score for one in histories for score in one.known_scores]
        overall = _rate(everything, 0.5, self._options.prior)
        for task, one in enumerate(histories):
            rate = _rate(one.known_scores, overall, self._options.prior)
            for anchor in anchors_of(task, one):
                if anchor.granted >= self._options.most and anchor.state is not None:
                    continue
                a, b = success_posterior(anchor, overall if anchor.state is None else rate, self._options.prior)
                yield a * b / ((a + b) * (a + b + 1.0)), anchor


def _rate(scores: Sequence[float], prior: float, weight: float) -> float:
    return (math.fsum(scores) + prior * weight) / (len(scores) + weight)


def success_posterior(anchor: AnchorStats, rate: float, weight: float) -> tuple[float, float]:
    """Returns the Beta posterior (a, b) of success from an anchor whose enclosing task or run succeeds at `rate`."""
    return anchor.passed + weight * rate, anchor.attempts - anchor.passed + weight * (1.0 - rate)


def anchors_of(task: int, history: TaskHistory) -> list[AnchorStats]:
    """Returns the start of a task and every intermediate state of its attempts; final states are excluded."""
    found: dict[str | None, AnchorStats] = {
        None: AnchorStats(task, None, math.fsum(history.known_scores), len(history.known_scores), len(history.scores))
    }
    ways: dict[str, list[tuple[StatePath, int]]] = defaultdict(list)
    ends = {path.states[-1] for path in history.paths if path.states}
    for path in history.paths:
        for state, steps in _first_visits(path.states):
            if state not in ends:
                ways[state].append((path, steps))
    forks_by_state = _forks_by_state(history.paths)
    for state, several in ways.items():
        scores = [path.score for path, _ in several if path.score is not None]
        scores += [path.score for path in forks_by_state.get(state, ()) if path.score is not None]
        whole = [(steps, path.chain) for path, steps in several if path.forked is None]
        if whole:
            steps, chain = min(whole)
            anchor = Anchor(chain, steps, state)
            forks = len(forks_by_state.get(state, ()))
            found[state] = AnchorStats(task, state, math.fsum(scores), len(scores), forks, anchor)
    return list(found.values())


def _first_visits(states: Iterable[str | None]) -> Iterator[tuple[str, int]]:
    known = set()
    for steps, state in enumerate(states, 1):
        if state is not None and state not in known:
            known.add(state)
            yield state, steps


def _forks_by_state(paths: Sequence[StatePath]) -> dict[str, list[StatePath]]:
    found: dict[str, list[StatePath]] = defaultdict(list)
    for path in paths:
        if path.forked is not None:
            found[path.forked].append(path)
    return found
