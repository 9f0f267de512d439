"""Learns a policy over acts from verified attempts, for `best-first` search: a softmax regression on texts.

Each act on the judged way of a passing attempt is an example: its kind, given the observation before it and the act
before that. Attempts whose pass is doubted are left out. Fitting is deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from assay.agents.text_policy import TextPolicy, act_kinds, policy_features
from assay.analysis.judged_path import judged_path
from assay.errors import UserError
from assay.learning.curation.lessons import opening_for
from assay.learning.reading import RunReader, verified_outcome
from assay.learning.rows_config import RowsConfig
from assay.records import ToolCall, Trajectory
from assay.settings import Settings

LEAST_SUPPORT = 5
"""Examples that a kind of act or a feature needs for weights of its own."""
_RIDGE = 1.0
_ROUNDS = 200
Floats = npt.NDArray[np.float64]


class PolicyExample(NamedTuple):
    """One act of a passing attempt."""

    kinds: tuple[str, str]
    features: frozenset[str]


class FittedPolicy(NamedTuple):
    """The fitted policy and what it rests on."""

    policy: TextPolicy
    passed: int
    acts: int
    left_out: int
    """Attempts that did not pass, whose pass is doubted, or that were made on recorded pages."""


def learn_policy(runs: Sequence[str], settings: Settings) -> FittedPolicy:
    """Learns a policy from the passing attempts of runs.

    Raises:
        UserError: No attempt passed, or too few for any kind of act.
        StoreError: A run is not what was recorded.
    """
    examples, passed, left_out = list[PolicyExample](), 0, 0
    for run in runs:
        with RunReader.open(settings, run, RowsConfig()) as reader:
            reader.judged_only = False
            for trajectory in reader.trajectories():
                if verified_outcome(trajectory) != "pass":
                    left_out += 1
                    continue
                passed += 1
                opening = opening_for(reader, trajectory).messages
                brief = "\n".join(str(m["content"]) for m in opening if m["role"] == "user")
                examples += policy_examples(brief, trajectory)
    if not examples:
        raise UserError(f"no attempt of {', '.join(runs)} passed: a policy is learnt from passes")
    return FittedPolicy(fit_policy(examples), passed, len(examples), left_out)


def policy_examples(brief: str, trajectory: Trajectory) -> Iterator[PolicyExample]:
    """Yields the acts of an attempt's judged way."""
    text, before = brief, None
    for step in judged_path(trajectory).steps:
        if len(step.tool_calls) != 1 or not step.observations:
            continue
        act: ToolCall = step.tool_calls[0]
        yield PolicyExample(act_kinds(brief, act), frozenset(policy_features(brief, text, before)))
        text, before = step.observations[-1].content, act


def fit_policy(examples: Sequence[PolicyExample]) -> TextPolicy:
    """Fits the weights by softmax regression with a ridge penalty; what has little support gets none.

    Raises `UserError` if no kind of act has enough support.
    """
    exact = Counter(one.kinds[0] for one in examples)
    named = [one.kinds[0] if exact[one.kinds[0]] >= LEAST_SUPPORT else one.kinds[1] for one in examples]
    kinds = tuple(sorted(kind for kind, count in Counter(named).items() if count >= LEAST_SUPPORT))
    if not kinds:
        raise UserError(f"no act was made {LEAST_SUPPORT} times in passing attempts: record more")
    rows = [(kinds.index(kind), one.features) for kind, one in zip(named, examples, strict=True) if kind in kinds]
    support = Counter(feature for _, features in rows for feature in features)
    names = sorted(feature for feature, count in support.items() if count >= LEAST_SUPPORT)
    columns = {name: number for number, name in enumerate(names, 1)}
    design, target = np.zeros((len(rows), len(names) + 1)), np.zeros((len(rows), len(kinds)))
    design[:, 0] = 1.0
    for number, (kind, features) in enumerate(rows):
        target[number, kind] = 1.0
        for feature in features & columns.keys():
            design[number, columns[feature]] = 1.0
    weights = np.round(_fit_softmax(design, target), 6)
    table = {name: tuple(map(float, weights[number])) for name, number in columns.items()}
    bias = tuple(map(float, weights[0]))
    return TextPolicy(kinds, bias, table, min(bias))


def _fit_softmax(design: Floats, target: Floats) -> Floats:
    """Minimises the cross-entropy with a ridge penalty by L-BFGS; the intercepts are not penalised."""
    from scipy.optimize import minimize

    shape = (design.shape[1], target.shape[1])
    penalty = np.full((shape[0], 1), _RIDGE)
    penalty[0] = 1e-3

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(shape)
        logits = design @ weights
        logits -= logits.max(axis=1, keepdims=True)
        chances = np.exp(logits)
        chances /= chances.sum(axis=1, keepdims=True)
        value = -float((target * np.log(np.maximum(chances, 1e-300))).sum()) + 0.5 * float((penalty * weights**2).sum())
        gradient = design.T @ (chances - target) + penalty * weights
        return value, gradient.ravel()

    found = minimize(loss, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _ROUNDS})
    return np.asarray(found.x, dtype=np.float64).reshape(shape)
