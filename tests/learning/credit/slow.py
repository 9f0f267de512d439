"""The formulas once more, written out with loops: what the fast ones are tested against. Never used otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, stdev
from typing import Any

from assay.learning.credit.interface import FAIL, NOT_JUDGED, PASS, Batch

EPSILON = 1e-6


def turns_of(batch: Batch, attempt: int) -> list[int]:
    return [t for t, a in enumerate(batch.attempt) if a == attempt]


def rivals(batch: Batch, attempt: int) -> list[int]:
    return [a for a, g in enumerate(batch.group) if g == batch.group[attempt]]


def deviation(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0


def each_turn(batch: Batch, by_attempt: Sequence[float]) -> list[float]:
    return [by_attempt[a] for a in batch.attempt]


def earned(batch: Batch) -> list[float]:
    found = []
    for t, a in enumerate(batch.attempt):
        last = t == max(turns_of(batch, a))
        found.append(float(batch.turn_reward[t]) + (float(batch.reward[a]) if last else 0.0))
    return found


def returns(batch: Batch, discount: float, got: Sequence[float] | None = None) -> list[float]:
    got = earned(batch) if got is None else got
    found = []
    for t, a in enumerate(batch.attempt):
        later = [u for u in turns_of(batch, a) if u >= t]
        found.append(sum(discount ** (u - t) * got[u] for u in later))
    return found


def grpo(batch: Batch) -> list[float]:
    found = []
    for a in range(len(batch.group)):
        rewards = [float(batch.reward[b]) for b in rivals(batch, a)]
        found.append((batch.reward[a] - fmean(rewards)) / (deviation(rewards) + EPSILON))
    return each_turn(batch, found)


def dr_grpo(batch: Batch) -> list[float]:
    means = [fmean(float(batch.reward[b]) for b in rivals(batch, a)) for a in range(len(batch.group))]
    return each_turn(batch, [float(batch.reward[a]) - means[a] for a in range(len(batch.group))])


def _rloo(batch: Batch) -> list[float]:
    found = []
    for a in range(len(batch.group)):
        others = [float(batch.reward[b]) for b in rivals(batch, a) if b != a]
        found.append(float(batch.reward[a]) - fmean(others) if others else 0.0)
    return found


def rloo(batch: Batch) -> list[float]:
    return each_turn(batch, _rloo(batch))


def reinforce_plus_plus(batch: Batch) -> list[float]:
    """By token, as published, and the value of a turn's tokens given back to the turn."""
    by_turn = returns(batch, 1.0)
    tokens = [by_turn[t] for t in range(len(by_turn)) for _ in range(int(batch.tokens[t]))]
    if not tokens:
        return [0.0] * len(by_turn)
    middle = fmean(tokens)
    scale = math.sqrt(fmean((x - middle) ** 2 for x in tokens))
    return [(x - middle) / (scale + 1e-8) for x in by_turn]


def reinforce_plus_plus_group(batch: Batch) -> list[float]:
    means = [fmean(float(batch.reward[b]) for b in rivals(batch, a)) for a in range(len(batch.group))]
    return reinforce_plus_plus(batch._replace(reward=batch.reward - means))


def gae(batch: Batch) -> list[float]:
    assert batch.value is not None
    assert batch.final_value is not None
    got, surprise = earned(batch), []
    for t, a in enumerate(batch.attempt):
        after = batch.final_value[a] if t == max(turns_of(batch, a)) else batch.value[t + 1]
        surprise.append(float(got[t] + 0.99 * after - batch.value[t]))
    return returns(batch, 0.99 * 0.9, surprise)


def _anchored(batch: Batch, *, normalise: bool) -> list[float]:
    value = returns(batch, 0.95)
    keys = [(int(batch.group[a]), int(batch.state[t])) for t, a in enumerate(batch.attempt)]
    found = []
    for t, key in enumerate(keys):
        same = [value[u] for u, other in enumerate(keys) if other == key]
        part = value[t] - fmean(same)
        found.append(0.0 if key[1] < 0 else part / (deviation(same) + EPSILON if normalise else 1.0))
    return found


def gigpo(batch: Batch) -> list[float]:
    return [e + s for e, s in zip(dr_grpo(batch), _anchored(batch, normalise=False), strict=True)]


def gigpo_deviation(batch: Batch) -> list[float]:
    return [e + s for e, s in zip(grpo(batch), _anchored(batch, normalise=True), strict=True)]


def gigpo_by_turns(batch: Batch) -> list[float]:
    """The mean over turns, as the released code has it."""
    found = []
    for t, part in enumerate(_anchored(batch, normalise=False)):
        a = int(batch.attempt[t])
        held = [float(batch.reward[b]) for b in batch.attempt if batch.group[b] == batch.group[a]]
        found.append((float(batch.reward[a]) - fmean(held) if len(rivals(batch, a)) > 1 else 0.0) + part)
    return found


def mc_grpo(batch: Batch) -> list[float]:
    found = [float(batch.reward[a]) - median(batch.reward[rivals(batch, a)]) for a in range(len(batch.group))]
    return each_turn(batch, found)


def mc_grpo_released(batch: Batch) -> list[float]:
    found = []
    for a in range(len(batch.group)):
        rewards = [float(r) for r in batch.reward[rivals(batch, a)]]
        middle = median(rewards)
        spread = median(abs(r - middle) for r in rewards)
        scaled = [(r - middle) / (spread + 1e-3) for r in rewards]
        moved = sum(x != 0 for x in scaled)
        found.append((float(batch.reward[a]) - middle) / (spread + 1e-3) * (len(rewards) / moved if moved else 1.0))
    return each_turn(batch, found)


def _number(batch: Batch, turn: int) -> int:
    return turn - min(turns_of(batch, int(batch.attempt[turn])))


def step_returns(batch: Batch) -> list[float]:
    value, found = returns(batch, 0.95), []
    for t, a in enumerate(batch.attempt):
        same = [
            value[u]
            for u, b in enumerate(batch.attempt)
            if batch.group[b] == batch.group[a] and _number(batch, u) == _number(batch, t)
        ]
        found.append(value[t] - fmean(same))
    return found


def main_of(batch: Batch, attempt: int) -> int:
    while batch.parent[attempt] >= 0:
        attempt = int(batch.parent[attempt])
    return attempt


def m_grpo(batch: Batch) -> list[float]:
    found = []
    for a in range(len(batch.group)):
        rank = batch.parent[a] >= 0
        peers = [
            float(batch.reward[b])
            for b in range(len(batch.group))
            if (batch.parent[b] >= 0) == rank and batch.group[main_of(batch, b)] == batch.group[main_of(batch, a)]
        ]
        found.append((float(batch.reward[a]) - fmean(peers)) / (deviation(peers) + EPSILON))
    return each_turn(batch, found)


def _likelihood(batch: Batch, attempt: int) -> float:
    turns = [t for t in turns_of(batch, attempt) if batch.tokens[t]]
    total = sum(int(batch.tokens[t]) for t in turns)
    return sum(float(batch.logprob[t]) * int(batch.tokens[t]) for t in turns) / total if total else math.nan


def xrpo(batch: Batch) -> list[float]:
    scores = [_likelihood(batch, a) for a in range(len(batch.group))]
    found = []
    for a in range(len(batch.group)):
        rewards = [float(batch.reward[b]) for b in rivals(batch, a)]
        advantage = (float(batch.reward[a]) - fmean(rewards)) / (deviation(rewards) + EPSILON)
        known = [scores[b] for b in rivals(batch, a) if not math.isnan(scores[b])]
        if advantage > 0 and not math.isnan(scores[a]):
            novelty = math.exp(scores[a] - fmean(known))
            advantage += min(max(1.0 - novelty, 0.0), advantage)
        found.append(advantage)
    return each_turn(batch, found)


def sweet_spot(batch: Batch) -> list[float]:
    assert batch.progress is not None
    rewards = []
    for a in range(len(batch.group)):
        shares = [float(batch.progress[t]) for t in turns_of(batch, a) if not math.isnan(batch.progress[t])]
        reached = sum(max(shares, default=0.0) >= tier for tier in (0.25, 0.5, 0.75))
        reached = 4 if batch.outcome[a] == PASS else reached
        rewards.append((2.0**reached - 1) / 15)
    found = []
    for a in range(len(batch.group)):
        held = [rewards[b] for b in rivals(batch, a)]
        found.append((rewards[a] - fmean(held)) / (deviation(held) + EPSILON))
    return each_turn(batch, found)


def leave_one_out(batch: Batch) -> list[float]:
    assert batch.without is not None
    whole, found = _rloo(batch), []
    for t, a in enumerate(batch.attempt):
        measured = [u for u in turns_of(batch, a) if not math.isnan(batch.without[u])]
        worth = {u: float(batch.reward[a] - batch.without[u]) for u in measured}
        found.append(whole[a] + (worth[t] - fmean(worth.values()) if t in worth else 0.0))
    return found


def progress(batch: Batch) -> list[float]:
    assert batch.progress is not None
    gained = []
    for t, a in enumerate(batch.attempt):
        before = [float(batch.progress[u]) for u in turns_of(batch, a) if u < t and not math.isnan(batch.progress[u])]
        share = float(batch.progress[t])
        start = share if batch.forked[a] else 0.0
        gained.append(0.0 if math.isnan(share) else share - (before[-1] if before else start))
    whole, found = _rloo(batch), []
    for t, a in enumerate(batch.attempt):
        held = [gained[u] for u, b in enumerate(batch.attempt) if batch.group[b] == batch.group[a]]
        found.append(whole[a] + gained[t] - fmean(held))
    return found


def hindsight(batch: Batch) -> list[float]:
    assert batch.final_state is not None
    found = [0.0] * len(batch.attempt)
    for a in range(len(batch.group)):
        turns = turns_of(batch, a)
        honest = batch.integrity[a] in (PASS, NOT_JUDGED)
        if batch.outcome[a] != FAIL or not honest or not turns:
            continue
        after = [*(int(batch.state[t]) for t in turns[1:]), int(batch.final_state[a])]
        goal, first = after[-1], int(batch.state[turns[0]])
        if goal < 0 or first < 0 or goal == first:
            continue
        at = after.index(goal)
        for number in range(at + 1):
            found[turns[number]] = 0.95 ** (at - number)
    return found


def first_error(batch: Batch, mask: Sequence[bool], *, later: bool) -> list[bool]:
    found = list(mask)
    for a in range(len(batch.group)):
        turns = turns_of(batch, a)
        errors = [t for t in turns if batch.error[t]]
        if batch.outcome[a] == FAIL and errors:
            for t in turns:
                found[t] = found[t] and not (t < errors[0] or (later and t > errors[0]))
    return found


def entropy(batch: Batch, mask: Sequence[bool], share: float, *, within_group: bool) -> list[bool]:
    assert batch.entropy is not None
    held = [t for t in range(len(mask)) if mask[t] and not math.isnan(batch.entropy[t])]
    sets: dict[Any, list[int]] = {}
    for t in held:
        sets.setdefault(int(batch.group[batch.attempt[t]]) if within_group else 0, []).append(t)
    kept: set[int] = set()
    for turns in sets.values():
        most = math.ceil(len(turns) * share - 1e-9)
        kept |= set(sorted(turns, key=lambda t: (-batch.entropy[t], t))[:most])  # type: ignore[index]
    return [t in kept for t in range(len(mask))]


def fresh(batch: Batch, mask: Sequence[bool], now: int, most: int, *, whole: bool) -> list[bool]:
    found = list(mask)
    for t, a in enumerate(batch.attempt):
        turns = turns_of(batch, a) if whole else [t]
        known = [int(batch.version[u]) for u in turns if batch.version[u] >= 0]
        stale = bool(known) and now - min(known) > most
        found[t] = found[t] and batch.version[t] >= 0 and not stale
    return found


def echo_weights(roles: Sequence[str], rows: Sequence[int], alpha: float) -> list[float]:
    caused = [
        role == "observation" and any(roles[j] == "action" and rows[j] == rows[i] for j in range(i))
        for i, role in enumerate(roles)
    ]
    return [alpha / sum(caused) if each else 0.0 for each in caused]


def importance(
    now: Sequence[float],
    then: Sequence[float],
    unit: Sequence[int],
    cap: float,
    band: tuple[float, float],
    *,
    mean: bool,
) -> list[float]:
    found = []
    for i in range(len(now)):
        gaps = [now[j] - then[j] for j in range(len(now)) if unit[j] == unit[i]]
        weight = math.exp(sum(gaps) / (len(gaps) if mean else 1))
        found.append(0.0 if math.isnan(weight) or not band[0] <= weight <= band[1] else min(weight, cap))
    return found
