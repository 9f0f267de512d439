"""Slower answers of a server as a sign that it has too much to do: they take longer, and no more work is done.

Latency alone says nothing of a model server: it batches, so that with more calls at once each takes longer while more
tokens come a second. Past the knee calls only wait for each other. The operating point at which throughput divided by
latency (*power*) is highest is that knee (Kleinrock, "Power and deterministic rules of thumb", ICC 1979). The answers
are summed up in windows; a window is slow if its median latency is `SLOWER` times that of the window with the highest
power, and its throughput is not `MORE` times as high. That window is forgotten after `FORGET_S`, because servers and
prompts change; TCP Vegas (Brakmo and Peterson, 1995) and Netflix's concurrency-limits compare with a baseline alike.

Latency and throughput are those of the output's tokens where the server counts them, else those of answers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

WINDOW_REPLIES, WINDOW_S = 20, 2.0
"""A window ends when it has so many answers and is so long."""
SLOWER, MORE = 2.0, 1.25
FORGET_S = 600.0


class _Window(NamedTuple):
    latency_s: float
    """Median seconds of a token or an answer."""
    rate: float
    """Tokens or answers a second."""

    @property
    def power(self) -> float:
        return self.rate / max(self.latency_s, 1e-9)


class LatencyWatch:
    """Watches the answers of one server."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._best: _Window | None = None
        self._best_at = 0.0
        self._began: float | None = None
        self._latencies: list[float] = []
        self._work = 0
        self.is_slow = False
        """True if the last whole window was slow."""

    def add(self, seconds: float, tokens: int | None) -> bool:
        """Takes an answer; returns whether it ended a window that is slow.

        Args:
            seconds: From the request to the whole answer.
            tokens: Tokens of the output; None if the server does not count them.
        """
        now, work = self._clock(), max(1, tokens or 1)
        if self._began is None:
            self._began = now - seconds
        self._latencies.append(seconds / work)
        self._work += work
        length = now - self._began
        if len(self._latencies) < WINDOW_REPLIES or length < WINDOW_S:
            return False
        window = _Window(statistics.median(self._latencies), self._work / length)
        self._latencies, self._work, self._began = [], 0, now
        best = self._best
        if best is None or now - self._best_at > FORGET_S or window.power >= best.power:
            self._best, self._best_at, self.is_slow = window, now, False
        else:
            self.is_slow = window.latency_s > SLOWER * best.latency_s and window.rate < MORE * best.rate
        return self.is_slow


class ServerLoad:
    """Divides the answers of one model server into good and slow ones. A `LoadListener`."""

    def __init__(
        self,
        watch: LatencyWatch,
        on_overload: Callable[[], None],
        on_good: Callable[[], object],
        on_slow: Callable[[], object],
    ) -> None:
        """Creates the listener; `on_slow` is called at the end of each slow window, and `on_good` for each answer after
        one that is not."""
        self._watch, self.on_overload = watch, on_overload
        self._on_good, self._on_slow = on_good, on_slow

    def on_reply(self, seconds: float, tokens: int | None) -> None:
        if self._watch.add(seconds, tokens):
            self._on_slow()
        elif not self._watch.is_slow:
            self._on_good()
