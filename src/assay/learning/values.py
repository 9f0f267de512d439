"""Learns the value of states from verified attempts, for `best-first` search: a logistic regression on texts.

A state on the judged way of a passing attempt is worth `discount` to the power of the acts that were left; one of a
failing attempt, or of a try that was not handed in, is worth 0. Attempts whose pass is doubted, or that were not
judged, are left out. Fitting is deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from assay.agents.text_value import TextValue, text_features
from assay.analysis.judged_path import judged_path
from assay.errors import UserError
from assay.learning.curation.lessons import opening_for
from assay.learning.reading import RunReader, verified_outcome
from assay.learning.rows_config import RowsConfig
from assay.records import Trajectory
from assay.settings import Settings

LEAST_SUPPORT = 5
"""States that must show a feature for it to get a weight."""
_RIDGE = 1.0
Floats = npt.NDArray[np.float64]


class ValuedState(NamedTuple):
    """One state of a verified attempt."""

    features: frozenset[str]
    seen: int
    """How often the attempt had shown this text by then."""
    value: float


class FittedValue(NamedTuple):
    """The fitted value and what it rests on."""

    value: TextValue
    attempts: int
    passed: int
    states: int
    left_out: int
    """Attempts that are doubted, unjudged or broken."""


def learn_value(runs: Sequence[str], settings: Settings, discount: float) -> FittedValue:
    """Learns a value from the judged attempts of runs.

    Raises:
        UserError: No attempt passed, all did, or `discount` is not between 0 and 1.
        StoreError: A run is not what was recorded.
    """
    if not 0 < discount < 1:
        raise UserError(f"discount is {discount}: it must be between 0 and 1, for example 0.9")
    states, counts = list[ValuedState](), Counter[str | None]()
    for run in runs:
        with RunReader.open(settings, run, RowsConfig()) as reader:
            reader.judged_only = False
            for trajectory in reader.trajectories():
                kind = verified_outcome(trajectory)
                counts[kind] += 1
                if kind is not None:
                    opening = opening_for(reader, trajectory).messages
                    brief = "\n".join(str(m["content"]) for m in opening if m["role"] == "user")
                    states += value_states(brief, trajectory, discount, passed=kind == "pass")
    if not counts["pass"] or not counts["fail"]:
        which = "passed" if not counts["pass"] else "failed"
        raise UserError(f"no attempt of {', '.join(runs)} {which}: a value is learnt from passes and failures")
    judged = counts["pass"] + counts["fail"]
    return FittedValue(fit(states), judged, counts["pass"], len(states), counts.total() - judged)


def value_states(brief: str, trajectory: Trajectory, discount: float, *, passed: bool) -> list[ValuedState]:
    """Returns the states of an attempt, those of tries that were not handed in as worth 0."""
    path = {step.index: number for number, step in enumerate(judged_path(trajectory).steps, 1)}
    seen, found = Counter[str | None](), list[ValuedState]()
    texts = [(-1, brief)]
    texts += [(step.index, step.observations[-1].content) for step in trajectory.steps if step.observations]
    for index, text in texts:
        seen[text] += 1
        done = 0 if index < 0 else path.get(index)
        value = 0.0 if done is None or not passed else discount ** (len(path) - done)
        found.append(ValuedState(frozenset(text_features(brief, text)), seen[text], value))
    return found


def fit(states: Iterable[ValuedState]) -> TextValue:
    """Fits the weights by logistic regression with a ridge penalty; features of few states get none."""
    states = list(states)
    support = Counter(feature for state in states for feature in state.features)
    names = sorted(feature for feature, count in support.items() if count >= LEAST_SUPPORT)
    columns = {name: number for number, name in enumerate(names)}
    design = np.zeros((len(states), len(names) + 2))
    design[:, 0] = 1.0
    design[:, 1] = [np.log(state.seen) for state in states]
    for row, state in enumerate(states):
        for feature in state.features:
            if feature in columns:
                design[row, columns[feature] + 2] = 1.0
    weights = _fit_logistic(design, np.array([state.value for state in states]))
    rounded = [round(float(weight), 6) for weight in weights]
    return TextValue(rounded[0], rounded[1], dict(zip(names, rounded[2:], strict=True)))


def _fit_logistic(design: Floats, target: Floats) -> Floats:
    """Minimises the cross-entropy with soft targets by Newton's method; the intercept is not penalised."""
    weights = np.zeros(design.shape[1])
    penalty = np.full(design.shape[1], _RIDGE)
    penalty[0] = 1e-6
    for _ in range(50):
        odds = 1.0 / (1.0 + np.exp(-np.clip(design @ weights, -30, 30)))
        gradient = design.T @ (odds - target) + penalty * weights
        curvature = (design * (odds * (1 - odds))[:, None]).T @ design + np.diag(penalty)
        change = np.linalg.solve(curvature, gradient)
        weights -= np.clip(change, -2.0, 2.0)
        if float(np.abs(change).max()) < 1e-8:
            break
    return np.asarray(weights, dtype=np.float64)
