"""Mixtures: quotas by run, agent, model or task, drawn at random with a seed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal

from assay.records import digest_bytes

from .interface import AttemptCandidate, Selection


def mixture(
    candidates: Sequence[AttemptCandidate],
    *,
    by: Literal["run", "agent", "model", "task"] = "run",
    shares: Mapping[str, float] | None = None,
    total: int | None = None,
    seed: int = 0,
) -> list[Selection]:
    """Keeps a random draw in which every source has its share.

    Args:
        candidates: What is decided about.
        by: What tells sources apart.
        shares: Weight of each source; a source that is not named has none. Default: all alike.
        total: How many are kept in all; default: as many as the shares allow.
        seed: Of the draw. Which attempt is drawn does not depend on the order of the candidates.

    Raises:
        ValueError: A share or the total is negative, or no share is positive.
    """
    sources: defaultdict[str, list[int]] = defaultdict(list)
    for number, one in enumerate(candidates):
        sources[str(getattr(one, by))].append(number)
    weights = {name: 1.0 for name in sources} if shares is None else {str(name): float(w) for name, w in shares.items()}
    if not all(0 <= weight < math.inf for weight in weights.values()) or (weights and not any(weights.values())):
        raise ValueError(f"shares must not be negative, and one must be positive; got {weights}")
    if total is not None and total < 0:
        raise ValueError(f"total must not be negative; got {total}")
    wanted = quotas({name: len(available) for name, available in sources.items()}, weights, total)
    found = [Selection(False, "")] * len(candidates)
    for name, numbers in sources.items():
        order = sorted(
            numbers, key=lambda n: digest_bytes(f"{seed}\n{candidates[n].run}\n{candidates[n].chain}".encode())
        )
        share_text = f"of {len(numbers)} by {by} {name}"
        for rank, number in enumerate(order):
            drawn = rank < wanted[name]
            found[number] = Selection(
                drawn, f"{'drawn' if drawn else 'not drawn'}: {wanted[name]} {share_text} are kept"
            )
    return found


def quotas(available: Mapping[str, int], weights: Mapping[str, float], total: int | None) -> dict[str, int]:
    """Returns the number to keep of each source, in proportion to the weights and at most what is available.

    Without a total, the most that all sources can give in their proportion; with one, what a source lacks is not made
    up by another, because then the shares would not be those asked for.
    """
    weight = {name: weights.get(name, 0.0) for name in available}
    whole = sum(weight.values())
    if not whole:
        return dict.fromkeys(available, 0)
    most = min(available[name] * whole / w for name, w in weight.items() if w > 0)
    asked = most if total is None else min(float(total), sum(available.values()))
    exact = {name: asked * w / whole for name, w in weight.items()}
    found = {name: min(int(value + 1e-9), available[name]) for name, value in exact.items()}
    # Largest remainders first, so that the parts add up to the whole where there is enough of each.
    left = int(asked + 1e-9) - sum(found.values())
    for name in sorted(exact, key=lambda n: (found[n] - exact[n], n)):
        if left > 0 and weight[name] > 0 and found[name] < available[name] and found[name] < exact[name]:
            found[name] += 1
            left -= 1
    return found
