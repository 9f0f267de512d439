"""The Pareto front of configurations by cost and value."""

from __future__ import annotations

from collections.abc import Sequence


def pareto_front(points: Sequence[tuple[float | None, float | None]]) -> tuple[int, ...]:
    """Returns the positions of the points on the front, the cheapest first.

    Args:
        points: (cost, value): less cost and more value are better. A point with a None is never on the front.

    Returns:
        A point is left out where another is at least as good in both and better in one; of equal points all are kept.
    """
    known = [(cost, -value, n) for n, (cost, value) in enumerate(points) if cost is not None and value is not None]
    found: list[int] = []
    best: tuple[float, float] | None = None
    for cost, loss, position in sorted(known):
        if best is None or loss < best[1] or (cost, loss) == best:
            found.append(position)
            best = (cost, loss)
    return tuple(found)
