"""The policy gradient over tokens that were sampled, under any credit.

What is taken for granted elsewhere is checked here, on every batch: that tokens were drawn from the whole distribution
(a cut one makes every ratio wrong), that the weights behind them are known and not too old, and that the trainer gives
the sampled tokens the log-probabilities that the engine gave them.
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

from .batches import attempts_of, log_probabilities, passes, tensors, token_weights
from .loss import cross_entropy, pull, surrogate
from .optimise import Optimiser
from .options import PolicyGradientOptions
from .policy import Policy

if TYPE_CHECKING:
    import torch

__all__ = ["Gap", "fresh", "recompute", "require_unbent", "update"]

Floats = NDArray[np.float32]
_NEUTRAL: dict[str, tuple[float, ...]] = {"temperature": (1.0,), "top_p": (1.0,), "top_k": (0, -1), "min_p": (0.0,)}


class Gap(NamedTuple):
    """How far the trainer's log-probabilities are from the engine's, over the tokens that are trained."""

    most: float
    mean: float
    divergence: float
    """Schulman's k3 estimate of the divergence between the two, in nats a token."""
    tokens: int


class _Item(NamedTuple):
    """A row with what the loss needs of it, each [N]."""

    row: TrainingRow
    weight: Any
    old: Floats
    observed: Any
    pulled: Any
    reference: Floats | None

    @property
    def idle(self) -> bool:
        """Whether it has no gradient."""
        moved = self.row.advantages is not None and bool(np.any(self.row.advantages * self.weight))
        return not moved and not np.any(self.observed) and not np.any(self.pulled)


def update(
    policy: Policy,
    optimiser: Optimiser,
    rows: Sequence[TrainingRow],
    options: PolicyGradientOptions,
    *,
    reference: Any = None,
    seed: int = 0,
) -> dict[str, float]:
    """One batch: `options.epochs` times over it, `options.minibatches` steps each.

    Args:
        policy: Is trained in place.
        optimiser: Of its model.
        rows: With advantages.
        options: See there.
        reference: The model that `reference_pull` pulls towards.
        seed: Of how attempts are put into minibatches.

    Returns:
        What was measured, means over all trained tokens or all steps.

    Raises:
        UserError: A row has no advantages, was drawn from a cut distribution, or the trainer gives its tokens other
            log-probabilities than the engine did.
    """
    _require_credit(rows)
    require_unbent(rows)
    now = recompute(policy.model, rows, optimiser.options.tokens_at_once, policy.device)
    version = policy.version
    gap = _gap(rows, now, version)
    if gap.most > options.most_gap:
        raise UserError(
            f"the trainer and the engine do not run the same model: a token's log-probability is {gap.most:.3g} nats "
            f"apart (allowed: {options.most_gap:g}) under the same weights {version}. Check dtype, device and template"
        )
    pulled = reference is not None and options.reference_pull > 0
    theirs = recompute(reference, rows, optimiser.options.tokens_at_once, policy.device) if pulled else None
    items = _items(rows, now, theirs, options, optimiser.taken)
    attempts = attempts_of(rows)
    sums = _Sums()
    for epoch in range(options.epochs):
        order = np.random.default_rng([seed, epoch]).permutation(int(attempts.max()) + 1 if len(rows) else 0)
        for chosen in np.array_split(order, options.minibatches):
            part = [items[place] for place in np.flatnonzero(np.isin(attempts, chosen))]
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
        "observation_loss": sums.observed / max(1, sums.steps),
        "pull": sums.pulled / max(1, sums.steps),
        "surprise": _surprise(rows, now),
        "tokens": trained,
        "rows": float(len(rows)),
        "rows_without_gradient": float(sum(item.idle for item in items)),
        "gap_most": gap.most,
        "gap_mean": gap.mean,
        "gap_divergence": gap.divergence,
        "gap_tokens": float(gap.tokens),
    }


def require_unbent(rows: Sequence[TrainingRow]) -> None:
    """Raises `UserError` where tokens were not drawn from the model's own whole distribution, or nobody said so.

    With top-p, top-k or min-p the sampled token's probability is that among the tokens that were kept, and with a
    temperature that of another distribution; the ratio to the trainer's is then wrong by as much as was cut off. The
    set of kept tokens is not recorded, so it cannot be made right here.
    """
    for row in rows:
        for turn in row.turns:
            if not turn.trained:
                continue
            for name, neutral in _NEUTRAL.items():
                given = turn.sampling.get(name, neutral[0] if name != "temperature" else None)
                if given not in neutral:
                    said = "does not say its temperature" if given is None else f"was sampled with {name}={given}"
                    raise UserError(
                        f"call {turn.call} of attempt {row.attempt!r} {said}, and which tokens were kept is not "
                        "recorded: a policy gradient would be biased. Sample with temperature=1, top_p=1, top_k=0 and "
                        "min_p=0, each said in the request"
                    )


def fresh(
    rows: Sequence[TrainingRow], history: Sequence[str], most_lag: int
) -> tuple[list[TrainingRow], dict[str, int]]:
    """The rows of attempts whose weights are known and at most `most_lag` updates old; how many attempts are not.

    Args:
        rows: Of any attempts; an attempt is dropped whole.
        history: The versions that this training had, oldest first; the last is the present one.
        most_lag: See there.
    """
    age = {version: len(history) - 1 - place for place, version in enumerate(history)}
    reasons: dict[tuple[str, str], str] = {}
    for row in rows:
        for turn in row.turns:
            if not turn.trained:
                continue
            lag = age.get(turn.weight_version or "")
            if lag is None or lag > most_lag:
                why = "unknown version" if lag is None else "stale"
                reasons.setdefault((row.run, row.chain), why)
    counts: dict[str, int] = {}
    for why in reasons.values():
        counts[why] = counts.get(why, 0) + 1
    return [row for row in rows if (row.run, row.chain) not in reasons], counts


def recompute(model: Any, rows: Sequence[TrainingRow], most: int, device: Any) -> list[Floats]:
    """The log-probability of each token of each row under `model`, [N] with 0 for the first token."""
    import torch

    found: list[Floats] = [np.zeros(0, dtype=np.float32)] * len(rows)
    with torch.no_grad():
        for one in passes([len(row) for row in rows], most):
            given = tensors([rows[place].token_ids for place in one.places], one.longest, device)
            values = log_probabilities(model, given).cpu().numpy()
            for line, place in zip(values, one.places, strict=True):
                whole = np.zeros(len(rows[place]), dtype=np.float32)
                whole[1:] = line[: len(whole) - 1]
                found[place] = whole
    return found


def _require_credit(rows: Sequence[TrainingRow]) -> None:
    for row in rows:
        if row.origin != "sampled" or row.advantages is None:
            what = "was not sampled, but rendered" if row.origin != "sampled" else "has no advantages"
            raise UserError(
                f"a row of attempt {row.attempt!r} {what}: a policy gradient needs credit on sampled tokens"
            )


def _gap(rows: Sequence[TrainingRow], now: Sequence[Floats], version: str) -> Gap:
    """Over the tokens that the present weights sampled."""
    found: list[Any] = []
    for row, logprobs in zip(rows, now, strict=True):
        current = [place for place, name in enumerate(row.weight_versions) if name == version]
        held = row.loss_mask & np.isin(row.versions, current) & np.isfinite(row.logprobs)
        found.append((logprobs - row.logprobs)[held].astype(np.float64))
    gaps = np.concatenate(found) if found else np.zeros(0)
    if not len(gaps):
        return Gap(0.0, 0.0, 0.0, 0)
    sizes = np.abs(gaps)
    return Gap(float(sizes.max()), float(sizes.mean()), float(np.mean(np.expm1(gaps) - gaps)), len(gaps))


def _surprise(rows: Sequence[TrainingRow], now: Sequence[Floats]) -> float:
    """Mean -log p of the trained tokens: on the policy's own samples an estimate of its entropy."""
    total = sum(float(-logprobs[row.loss_mask].sum()) for row, logprobs in zip(rows, now, strict=True))
    return total / max(1, sum(int(row.loss_mask.sum()) for row in rows))


def _items(
    rows: Sequence[TrainingRow],
    now: Sequence[Floats],
    theirs: Sequence[Floats] | None,
    options: PolicyGradientOptions,
    taken: int,
) -> list[_Item]:
    attempts = attempts_of(rows)
    streams = [row.weights.get("rl", row.loss_mask) * row.loss_mask for row in rows]
    weights = token_weights(streams, attempts, options.normalise, options.constant_length)
    if options.correction != "none":
        factors = _corrections(rows, now, options)
        weights = [weight * factor for weight, factor in zip(weights, factors, strict=True)]
    observed = _observed(rows, options, taken)
    share = options.reference_pull if theirs is not None else 0.0
    pulls = token_weights([row.weights.get("ref_kl", row.loss_mask) for row in rows], attempts, "token")
    return [
        _Item(
            row,
            weights[place],
            now[place] if options.old == "recomputed" else np.where(row.loss_mask, row.logprobs, 0).astype(np.float32),
            observed[place],
            pulls[place] * share,
            None if theirs is None else theirs[place],
        )
        for place, row in enumerate(rows)
    ]


def _corrections(rows: Sequence[TrainingRow], now: Sequence[Floats], options: PolicyGradientOptions) -> list[Any]:
    """Importance weights of the trained tokens; 1 elsewhere."""
    attempts = attempts_of(rows)
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


def _observed(rows: Sequence[TrainingRow], options: PolicyGradientOptions, taken: int) -> list[Any]:
    """ECHO's weights, warmed up; a row's own `ce` stream goes before them."""
    warm = min(1.0, (taken + 1) / max(1, options.observation_warmup))
    alpha = options.observation_weight * warm
    lengths = [len(row) for row in rows]
    if alpha > 0:
        roles = np.concatenate([_roles_met_first(row) for row in rows])
        places = np.repeat(np.arange(len(rows)), lengths)
        split = np.split(echo_weights(roles, places, alpha=alpha, names=ROLES), np.cumsum(lengths)[:-1])
    else:
        split = [np.zeros(length, dtype=np.float32) for length in lengths]
    own: Mapping[int, Any] = {place: row.weights["ce"] for place, row in enumerate(rows) if "ce" in row.weights}
    total = sum(float(np.sum(stream)) for stream in own.values())
    return [own[place] / max(total, 1e-12) if place in own else stream for place, stream in enumerate(split)]


def _roles_met_first(row: TrainingRow) -> Any:
    """The roles, but that observations which an earlier row of the attempt holds count there alone."""
    roles = row.roles.copy()
    known = roles[: row.shared]
    known[known == OBSERVATION] = TEMPLATE
    return roles


class _Sums:
    """What is added up over passes."""

    def __init__(self) -> None:
        self.loss = self.norm = self.observed = self.pulled = 0.0
        self.clipped = self.tokens = 0.0
        self.most_ratio = 1.0
        self.steps = 0


def _losses(
    policy: Policy,
    items: Sequence[_Item],
    scale: float,
    options: PolicyGradientOptions,
    optimiser: Optimiser,
    sums: _Sums,
) -> Iterator[torch.Tensor]:
    """One loss a pass; rows without gradient are not read."""
    items = [item for item in items if not item.idle]
    bounds = (options.clip_low, options.clip_high)
    for one in passes([len(item.row) for item in items], optimiser.options.tokens_at_once):
        held = [items[place] for place in one.places]
        given = tensors([item.row.token_ids for item in held], one.longest, policy.device)
        logprobs = log_probabilities(policy.model, given)
        weights = given.column([item.weight for item in held])
        advantages = given.column([item.row.advantages for item in held if item.row.advantages is not None])
        gain = surrogate(logprobs, given.column([item.old for item in held]), advantages, weights, bounds)
        seen = cross_entropy(logprobs, given.column([item.observed for item in held]))
        loss = gain.loss + seen
        sums.observed += float(seen.detach())
        if held[0].reference is not None:
            theirs = given.column([item.reference for item in held if item.reference is not None])
            drag = pull(logprobs, theirs, given.column([item.pulled for item in held]))
            sums.pulled += float(drag.detach())
            loss = loss + drag
        sums.loss += float(loss.detach()) * scale
        sums.clipped += float(gain.clipped.sum())
        sums.tokens += float((weights > 0).sum())
        sums.most_ratio = max(sums.most_ratio, float(gain.ratio.detach().max()))
        yield loss * scale
