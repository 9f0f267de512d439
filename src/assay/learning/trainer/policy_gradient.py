"""Policy gradient over sampled tokens, with any credit.

Every batch is validated: tokens were sampled from the untruncated distribution (else ratios are biased), their weights
are known and recent enough, and the trainer's log-probabilities agree with the engine's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.errors import UserError
from assay.learning.credit.echo import echo_weights
from assay.learning.credit.importance import importance_weights
from assay.learning.rows import OBSERVATION, ROLES, TEMPLATE, TrainingRow

from .batches import attempt_numbers, log_probabilities, pad_rows, plan_passes, token_weights
from .loss import clipped_surrogate, cross_entropy, k3_divergence
from .optimise import Optimiser
from .options import PolicyGradientOptions
from .policy import TrainedPolicy

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float32]
_NEUTRAL: dict[str, tuple[float, ...]] = {"temperature": (1.0,), "top_p": (1.0,), "top_k": (0, -1), "min_p": (0.0,)}


class LogProbGap(NamedTuple):
    """Difference between the trainer's and the engine's log-probabilities over trained tokens."""

    most: float
    mean: float
    divergence: float
    """Schulman's k3 estimate of their divergence, in nats per token."""
    tokens: int


class _Item(NamedTuple):
    """A row with its inputs to the loss, each [N]."""

    row: TrainingRow
    weight: Any
    old_logprobs: Floats
    observation_weight: Any
    reference_weight: Any
    reference: Floats | None

    @property
    def has_no_gradient(self) -> bool:
        """True for a row without gradient."""
        moved = self.row.advantages is not None and bool(np.any(self.row.advantages * self.weight))
        return not moved and not np.any(self.observation_weight) and not np.any(self.reference_weight)


def update_policy(
    policy: TrainedPolicy,
    optimiser: Optimiser,
    rows: Sequence[TrainingRow],
    options: PolicyGradientOptions,
    *,
    reference: Any = None,
    seed: int = 0,
) -> dict[str, float]:
    """Trains `options.epochs` passes of `options.minibatches` steps on one batch; returns means over trained tokens or
    steps.

    Raises:
        UserError: A row has no advantages, was drawn from a cut distribution, or the trainer gives its tokens other
            log-probabilities than the engine did.
    """
    _require_credit(rows)
    require_untruncated_sampling(rows)
    now = recompute_logprobs(policy.model, rows, optimiser.options.tokens_at_once, policy.device)
    version = policy.version
    gap = _measure_gap(rows, now, version)
    if gap.most > options.most_gap:
        raise UserError(
            f"the trainer and the engine do not run the same model: a token's log-probability is {gap.most:.3g} nats "
            f"apart (allowed: {options.most_gap:g}) under the same weights {version}. Check dtype, device and template"
        )
    has_reference = reference is not None and options.reference_pull > 0
    reference_logprobs = (
        recompute_logprobs(reference, rows, optimiser.options.tokens_at_once, policy.device) if has_reference else None
    )
    items = _items(rows, now, reference_logprobs, options, optimiser.steps_taken)
    attempts = attempt_numbers(rows)
    sums = _Sums()
    for epoch in range(options.epochs):
        order = np.random.default_rng([seed, epoch]).permutation(int(attempts.max()) + 1 if len(rows) else 0)
        for chosen in np.array_split(order, options.minibatches):
            part = [items[position] for position in np.flatnonzero(np.isin(attempts, chosen))]
            scale = len(order) / max(1, len(chosen))
            sums.steps += 1
            sums.norm += optimiser.step(_losses(policy, part, scale, options, optimiser, sums))
    trained = float(sum(int(row.loss_mask.sum()) for row in rows))
    return {
        "loss": sums.loss / max(1, sums.steps),
        "gradient_norm": sums.norm / max(1, sums.steps),
        "learning_rate": optimiser.rate(),
        "clipped": sums.clipped / max(1.0, sums.tokens),
        "ratio_most": sums.most_ratio,
        "observation_loss": sums.observation_loss / max(1, sums.steps),
        "pull": sums.reference_loss / max(1, sums.steps),
        "surprise": _surprise(rows, now),
        "tokens": trained,
        "rows": float(len(rows)),
        "rows_without_gradient": float(sum(item.has_no_gradient for item in items)),
        "gap_most": gap.most,
        "gap_mean": gap.mean,
        "gap_divergence": gap.divergence,
        "gap_tokens": float(gap.tokens),
    }


def require_untruncated_sampling(rows: Sequence[TrainingRow]) -> None:
    """Raises `UserError` unless all tokens were sampled from the model's untruncated distribution, and the record says
    so.

    With top-p, top-k or min-p the sampled token's probability is that among the tokens that were kept, and with a
    temperature that of another distribution; the ratio to the trainer's is then wrong by as much as was cut off. The
    set of kept tokens is not recorded, so it cannot be made right here.
    """
    for row in rows:
        for turn in row.turns:
            if not turn.trained:
                continue
            for name, neutral in _NEUTRAL.items():
                value = turn.sampling.get(name, neutral[0] if name != "temperature" else None)
                if value not in neutral:
                    problem = "does not say its temperature" if value is None else f"was sampled with {name}={value}"
                    raise UserError(
                        f"call {turn.call} of attempt {row.attempt!r} {problem}, and which tokens were kept is not "
                        "recorded: a policy gradient would be biased. Sample with temperature=1, top_p=1, top_k=0 and "
                        "min_p=0, each said in the request"
                    )


def drop_stale(
    rows: Sequence[TrainingRow], history: Sequence[str], most_lag: int
) -> tuple[list[TrainingRow], dict[str, int]]:
    """Returns the rows of attempts whose trained tokens are all of weights at most `most_lag` updates old, and the
    numbers of dropped attempts.

    `history` has the versions that this training had, oldest first; the last is the present one.
    """
    age = _ages(history)
    reasons: dict[tuple[str, str], str] = {}
    for row in rows:
        ages, unplaced = _token_ages(row, age), [age.get(name, -1) for name in row.unplaced_versions]
        for turn in row.turns:
            if not turn.trained or turn.start == turn.end:
                continue
            lags = np.append(ages[turn.start : turn.end], np.asarray(unplaced, dtype=np.int64))
            if lags.min() < 0 or lags.max() > most_lag:
                reasons.setdefault((row.run, row.chain), "unknown version" if lags.min() < 0 else "stale")
    counts: dict[str, int] = {}
    for why in reasons.values():
        counts[why] = counts.get(why, 0) + 1
    return [row for row in rows if (row.run, row.chain) not in reasons], counts


def measure_lag(rows: Sequence[TrainingRow], history: Sequence[str]) -> dict[str, float]:
    """Returns the policy lag of the trained tokens: updates between the weights that sampled them and the present ones.

    Args:
        rows: What is trained on.
        history: The versions that this training had, oldest first; the last is the present one.

    Returns:
        `lag` (mean) and `lag_most` over tokens of known versions, each absent without such tokens, and `lag_unknown`,
        the share of tokens of other versions.
    """
    age, found = _ages(history), []
    for row in rows:
        found.append(_token_ages(row, age)[row.loss_mask])
    lags = np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
    known = lags[lags >= 0]
    measured = {"lag_unknown": float(1 - len(known) / max(1, len(lags)))} if len(lags) else {}
    return measured | ({"lag": float(known.mean()), "lag_most": float(known.max())} if len(known) else {})


def _ages(history: Sequence[str]) -> dict[str, int]:
    """Returns how many updates ago the training had each version."""
    return {version: len(history) - 1 - position for position, version in enumerate(history)}


def _token_ages(row: TrainingRow, age: Mapping[str, int]) -> NDArray[np.int64]:
    """Returns how many updates old each token's weights are, [N]; -1 if their version is unknown."""
    ages = np.asarray([*(age.get(name, -1) for name in row.weight_versions), -1], dtype=np.int64)
    return ages[row.versions]  # version -1, unknown, is the last


def recompute_logprobs(model: Any, rows: Sequence[TrainingRow], most: int, device: Any) -> list[Floats]:
    """Returns the log-probability of each token under `model`, [N] per row with 0 for the first token."""
    import torch

    found: list[Floats] = [np.zeros(0, dtype=np.float32)] * len(rows)
    with torch.no_grad():
        for one in plan_passes([len(row) for row in rows], most):
            inputs = pad_rows([rows[position].token_ids for position in one.positions], one.longest, device)
            values = log_probabilities(model, inputs).cpu().numpy()
            for line, position in zip(values, one.positions, strict=True):
                whole = np.zeros(len(rows[position]), dtype=np.float32)
                whole[1:] = line[: len(whole) - 1]
                found[position] = whole
    return found


def _require_credit(rows: Sequence[TrainingRow]) -> None:
    for row in rows:
        if row.origin != "sampled" or row.advantages is None:
            what = "was not sampled, but rendered" if row.origin != "sampled" else "has no advantages"
            raise UserError(
                f"a row of attempt {row.attempt!r} {what}: a policy gradient needs credit on sampled tokens"
            )


def _measure_gap(rows: Sequence[TrainingRow], now: Sequence[Floats], version: str) -> LogProbGap:
    found: list[Any] = []
    for row, logprobs in zip(rows, now, strict=True):
        current = [position for position, name in enumerate(row.weight_versions) if name == version]
        measured = row.loss_mask & np.isin(row.versions, current) & np.isfinite(row.logprobs)
        found.append((logprobs - row.logprobs)[measured].astype(np.float64))
    gaps = np.concatenate(found) if found else np.zeros(0)
    if not len(gaps):
        return LogProbGap(0.0, 0.0, 0.0, 0)
    sizes = np.abs(gaps)
    return LogProbGap(float(sizes.max()), float(sizes.mean()), float(np.mean(np.expm1(gaps) - gaps)), len(gaps))


def _surprise(rows: Sequence[TrainingRow], now: Sequence[Floats]) -> float:
    """Returns the mean -log p of the trained tokens, an estimate of the policy's entropy."""
    total = sum(float(-logprobs[row.loss_mask].sum()) for row, logprobs in zip(rows, now, strict=True))
    return total / max(1, sum(int(row.loss_mask.sum()) for row in rows))


def _items(
    rows: Sequence[TrainingRow],
    now: Sequence[Floats],
    reference_logprobs: Sequence[Floats] | None,
    options: PolicyGradientOptions,
    steps_taken: int,
) -> list[_Item]:
    attempts = attempt_numbers(rows)
    streams = [row.weights.get("rl", row.loss_mask) * row.loss_mask for row in rows]
    weights = token_weights(streams, attempts, options.normalise, options.constant_length)
    if options.correction != "none":
        factors = _corrections(rows, now, options)
        weights = [weight * factor for weight, factor in zip(weights, factors, strict=True)]
    observed = _observation_weights(rows, options, steps_taken)
    share = options.reference_pull if reference_logprobs is not None else 0.0
    pulls = token_weights([row.weights.get("ref_kl", row.loss_mask) for row in rows], attempts, "token")
    return [
        _Item(
            row,
            weights[position],
            now[position]
            if options.old == "recomputed"
            else np.where(row.loss_mask, row.logprobs, 0).astype(np.float32),
            observed[position],
            pulls[position] * share,
            None if reference_logprobs is None else reference_logprobs[position],
        )
        for position, row in enumerate(rows)
    ]


def _corrections(rows: Sequence[TrainingRow], now: Sequence[Floats], options: PolicyGradientOptions) -> list[Any]:
    """Returns importance weights of the trained tokens; 1 elsewhere."""
    attempts = attempt_numbers(rows)
    masks = [row.loss_mask for row in rows]
    unit: list[Any] = []
    turns = 0
    for number, row in enumerate(rows):
        which = np.full(len(row), attempts[number], dtype=np.int64)
        if options.correction == "turn":
            for turn in row.turns:
                which[turn.start : turn.end] = turns
                turns += 1
        unit.append(which[masks[number]])
    flat = np.concatenate([logprobs[mask] for logprobs, mask in zip(now, masks, strict=True)])
    then = np.concatenate([row.logprobs[row.loss_mask] for row in rows])
    found = importance_weights(
        flat.astype(np.float64),
        then.astype(np.float64),
        None if options.correction == "token" else np.concatenate(unit),
        cap=options.correction_cap,
    ).weight
    factors, at = [], 0
    for mask in masks:
        factor = np.ones(len(mask))
        count = int(mask.sum())
        factor[mask] = found[at : at + count]
        factors.append(factor)
        at += count
    return factors


def _observation_weights(rows: Sequence[TrainingRow], options: PolicyGradientOptions, steps_taken: int) -> list[Any]:
    """Returns ECHO's weights with warm-up; a row's own `ce` stream takes precedence."""
    warm = min(1.0, (steps_taken + 1) / max(1, options.observation_warmup))
    alpha = options.observation_weight * warm
    lengths = [len(row) for row in rows]
    if alpha > 0:
        roles = np.concatenate([_first_seen_roles(row) for row in rows])
        places = np.repeat(np.arange(len(rows)), lengths)
        split = np.split(echo_weights(roles, places, alpha=alpha, names=ROLES), np.cumsum(lengths)[:-1])
    else:
        split = [np.zeros(length, dtype=np.float32) for length in lengths]
    own: Mapping[int, Any] = {position: row.weights["ce"] for position, row in enumerate(rows) if "ce" in row.weights}
    total = sum(float(np.sum(stream)) for stream in own.values())
    return [own[position] / max(total, 1e-12) if position in own else stream for position, stream in enumerate(split)]


def _first_seen_roles(row: TrainingRow) -> Any:
    """Returns the roles without observations that an earlier row of the attempt holds."""
    roles = row.roles.copy()
    known = roles[: row.shared]
    known[known == OBSERVATION] = TEMPLATE
    return roles


class _Sums:
    def __init__(self) -> None:
        self.loss = self.norm = self.observation_loss = self.reference_loss = 0.0
        self.clipped = self.tokens = 0.0
        self.most_ratio = 1.0
        self.steps = 0


def _losses(
    policy: TrainedPolicy,
    items: Sequence[_Item],
    scale: float,
    options: PolicyGradientOptions,
    optimiser: Optimiser,
    sums: _Sums,
) -> Iterator[torch.Tensor]:
    """Yields one loss per pass, without rows that have no gradient."""
    items = [item for item in items if not item.has_no_gradient]
    bounds = (options.clip_low, options.clip_high)
    for one in plan_passes([len(item.row) for item in items], optimiser.options.tokens_at_once):
        pass_items = [items[position] for position in one.positions]
        inputs = pad_rows([item.row.token_ids for item in pass_items], one.longest, policy.device)
        logprobs = log_probabilities(policy.model, inputs)
        weights = inputs.column([item.weight for item in pass_items])
        advantages = inputs.column([item.row.advantages for item in pass_items if item.row.advantages is not None])
        gain = clipped_surrogate(
            logprobs, inputs.column([item.old_logprobs for item in pass_items]), advantages, weights, bounds
        )
        observation_loss = cross_entropy(logprobs, inputs.column([item.observation_weight for item in pass_items]))
        loss = gain.loss + observation_loss
        sums.observation_loss += float(observation_loss.detach())
        if pass_items[0].reference is not None:
            reference_logprobs = inputs.column([item.reference for item in pass_items if item.reference is not None])
            penalty = k3_divergence(
                logprobs, reference_logprobs, inputs.column([item.reference_weight for item in pass_items])
            )
            sums.reference_loss += float(penalty.detach())
            loss = loss + penalty
        sums.loss += float(loss.detach()) * scale
        sums.clipped += float(gain.clipped.sum())
        sums.tokens += float((weights > 0).sum())
        sums.most_ratio = max(sums.most_ratio, float(gain.ratio.detach().max()))
        yield loss * scale
