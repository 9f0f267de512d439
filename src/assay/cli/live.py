"""Progress on stderr: a live table on a terminal, sparse lines elsewhere, so that stdout holds nothing but results."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from assay.rollout import PlannedAttempt, Tally, TryResult

from .output import console, say

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

__all__ = ["Display", "display"]

LINE_EVERY_S = 10.0


class Display(Tally):
    """A tally that can make room for a question."""

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Nothing is drawn meanwhile."""
        yield


class _Lines(Display):
    """One line now and then, and one for each thing that broke."""

    def __init__(self) -> None:
        super().__init__()
        self._last = 0.0

    def begin(self, *, total: int, done: int) -> None:
        super().begin(total=total, done=done)
        say(f"{total} attempt{'s' * (total != 1)}" + (f", {done} of them done before" if done else ""))

    def retrying(self, attempt: PlannedAttempt, result: TryResult) -> None:
        super().retrying(attempt, result)
        say(f"{attempt.id}: {result.broke} failed, trying again: {result.error}")

    def finished(self, attempt: PlannedAttempt, result: TryResult) -> None:
        super().finished(attempt, result)
        if result.broke is not None:
            say(f"{attempt.id}: {result.broke} failed: {result.error}")
        if time.monotonic() - self._last >= LINE_EVERY_S or self.done == self.total:
            self._last = time.monotonic()
            say(_line(self))


class _Table(_Lines):
    """A live table."""

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def begin(self, *, total: int, done: int) -> None:
        Tally.begin(self, total=total, done=done)
        self._live.update(_table(self))

    def started(self, attempt: PlannedAttempt) -> None:
        super().started(attempt)
        self._live.update(_table(self))

    def finished(self, attempt: PlannedAttempt, result: TryResult) -> None:
        Tally.finished(self, attempt, result)
        self._live.update(_table(self))


@contextmanager
def display() -> Iterator[Display]:
    """The display that fits stderr."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.live import Live as RichLive

    with RichLive(console=console(stderr=True), refresh_per_second=4, transient=True) as live:
        yield _Table(live)


def _line(tally: Tally) -> str:
    counts = ", ".join(f"{n} {name}" for name, n in tally.outcomes.items() if n)
    left = tally.seconds_left()
    rest = f", about {left:.0f} s left" if left and tally.done < tally.total else ""
    return f"{tally.done}/{tally.total} done: {counts}{rest}"


def _table(tally: Tally) -> Table:
    from rich.table import Table as RichTable

    table = RichTable(title=f"{tally.done} of {tally.total} attempts", title_justify="left", show_edge=False)
    left = tally.seconds_left()
    cost = "unknown" if tally.cost_usd is None else f"{tally.cost_usd:.4f}"
    cells = {name: str(n) for name, n in tally.outcomes.items()}
    cells |= {"retries": str(tally.retries), "stopped": str(tally.stopped), "tokens": str(tally.tokens)}
    cells |= {"usd": cost, "left": "-" if left is None else f"{left:.0f} s", "running": str(len(tally.running))}
    for name in cells:
        table.add_column(name, justify="right")
    table.add_row(*cells.values())
    return table
