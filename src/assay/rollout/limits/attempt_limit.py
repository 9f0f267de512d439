"""How many attempts may be under way on a node while a model server or the object storage has too much to do.

A sign of overload cuts the limit to a share of what is under way, and each answer lets it grow, by a quarter over as
many answers as the limit. Attempts under way go on: each waits for its server by the server's own rules.
"""

from __future__ import annotations

from collections.abc import Callable

DECREASE, INCREASE = 0.7, 0.25
CUT_EVERY_S = 2.0
"""Signs of overload within this time count as one: the attempts under way send many at once."""


class AttemptLimit:
    """A limit between 1 and `most`."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self.most = most
        self._clock = clock
        self._limit = float(most)
        self._cut_at: float | None = None
        self.cuts = 0
        """Number of decreases."""

    @property
    def allowed(self) -> int:
        """Returns how many attempts may be under way."""
        return int(self._limit)

    def cut(self, under_way: int, least: int = 1) -> None:
        """Takes a sign of overload while so many attempts were under way; it does not cut the limit below `least`."""
        now = self._clock()
        if self._cut_at is not None and now - self._cut_at < CUT_EVERY_S:
            return
        self._cut_at = now
        floor = min(float(least), self._limit)
        self._limit = max(1.0, floor, min(self._limit, float(max(1, under_way))) * DECREASE)
        self.cuts += 1

    def grow(self) -> bool:
        """Takes an answer in time; returns whether more attempts are allowed than before."""
        if self._limit >= self.most:
            return False
        if self._cut_at is not None and self._clock() - self._cut_at < CUT_EVERY_S:
            return False
        before = int(self._limit)
        self._limit = min(float(self.most), self._limit + INCREASE)
        return int(self._limit) > before
