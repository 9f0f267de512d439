"""Progress on stderr, and questions about guarded calls: a live table on a terminal, sparse lines elsewhere; stdout
holds only results.

In a CI log, lines become rarer as the run continues: some dozens an hour for any size of run.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from assay.errors import BudgetExceededError
from assay.rollout import PlannedAttempt, Tally, TrialResult
from assay.settings import Settings

from .output import INTERRUPTED, console, format_seconds, plain, quantity, say

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live
    from rich.table import Table

    from assay.rollout.limits.contract_guards import Ask, Question

LINE_EVERY_S = 10.0
RARER = 15
"""After this many intervals, lines follow at a fifteenth of the elapsed time."""
LONGEST_RUNNING = 4
WIDE = 60
SHOWN = 600
"""Characters of a guarded call's arguments that a question shows."""


class Display(Tally):
    """A tally that can pause for a question."""

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Pauses drawing."""
        yield

    def tell(self, text: str) -> None:
        """Prints a permanent line."""
        say(text)

    def warn(self, text: str) -> None:
        super().warn(text)
        self.tell(f"warning: {text}")

    def inform(self, text: str) -> None:
        self.tell(text)

    def retrying(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        super().retrying(attempt, result)
        self.tell(f"{attempt.id}: {result.broke} failed, trying again: {result.error}")

    def finished(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        super().finished(attempt, result)
        if result.broke is not None:
            self.tell(f"{attempt.id}: {result.broke} failed: {result.error}")


class LineDisplay(Display):
    """Prints occasional progress lines, and one line for each failure."""

    def __init__(self) -> None:
        super().__init__()
        self._last = 0.0

    def begin(self, *, total: int, done: int) -> None:
        super().begin(total=total, done=done)
        self.tell(quantity(total, "attempt") + (f", {done} of them done before" if done else ""))

    def finished(self, attempt: PlannedAttempt, result: TrialResult) -> None:
        super().finished(attempt, result)
        now = time.monotonic()
        if self.done == self.total or now - self._last >= max(LINE_EVERY_S, (now - self.began) / RARER):
            self._last = now
            self.tell(progress_line(self))


class TableDisplay(Display):
    """Shows a live table; failures stay above it."""

    def __init__(self) -> None:
        super().__init__()
        self.live: Live | None = None

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Pauses drawing."""
        if self.live is None:
            yield
            return
        self.live.stop()
        try:
            yield
        finally:
            self.live.start()

    def tell(self, text: str) -> None:
        """Prints a permanent line above the table."""
        if self.live is None:
            say(text)
        else:
            self.live.console.print(plain(text))


@contextmanager
def resumable(progress: Display) -> Iterator[None]:
    """Names the command that goes on where an interruption (exit code 130) or the budget (3) ends an open run."""
    try:
        yield
    except (KeyboardInterrupt, BudgetExceededError) as exc:
        if progress.run is None:
            raise
        ended = f"{progress.done} of {quantity(progress.total, 'attempt')} of run {progress.run} have ended"
        command = f"`assay resume {progress.run}`"
        if isinstance(exc, BudgetExceededError):
            progress.tell(f"assay: {exc}; {ended}; go on with {command} and a larger --budget-usd or --budget-calls")
            raise typer.Exit(3) from None
        progress.tell(f"interrupted: {ended} and are kept; finish it with {command}")
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def display() -> Iterator[Display]:
    """Yields a display that fits stderr: a table, lines, or a CI log."""
    if not sys.stderr.isatty() or _is_log():
        yield LineDisplay()
        return
    from rich.live import Live as RichLive

    table = TableDisplay()
    shown = console(stderr=True)
    with RichLive(
        console=shown, get_renderable=lambda: render_progress(table), refresh_per_second=4, transient=True
    ) as live:
        table.live = live
        yield table


def _is_log() -> bool:
    named = Settings.named(("CI", "TERM"))
    return named.get("TERM") == "dumb" or named.get("CI", "").lower() in ("1", "true", "yes")


def progress_line(tally: Tally) -> str:
    """Returns the progress as one line."""
    counted = {name: n for name, n in tally.outcomes.items() if n}
    earlier = tally.done - sum(counted.values())  # in the place of a run on nodes, and not yet in the store
    counts = ", ".join(
        [*([f"{earlier} before"] if earlier > 0 else []), *(f"{n} {name}" for name, n in counted.items())]
    )
    bounded = tally.budget.cost_usd is not None
    spent = [f"{tally.tokens:,} tokens"] * bool(tally.tokens)
    spent += [_cost(tally)] * bool(tally.cost_usd or tally.tokens or bounded)
    if tally.budget.calls is not None:
        spent.append(f"{tally.calls} of {tally.budget.calls} calls")
    left = tally.seconds_left()
    rest = [f"about {format_seconds(left)} left"] if left and tally.done < tally.total else []
    return "; ".join([f"{tally.done}/{tally.total} done: {counts}", *spent, *rest])


def _cost(tally: Tally) -> str:
    """Returns the known cost; a lower bound where some trials have no price, nothing before a trial has ended."""
    if not tally.priced and not tally.unpriced:
        return "-"
    if tally.unpriced and not tally.cost_usd:
        return "cost unknown"
    whole = "" if tally.budget.cost_usd is None else f" of ${tally.budget.cost_usd:g}"
    return f"{'at least ' if tally.unpriced else ''}${tally.cost_usd:.4f}{whole}"


def render_progress(tally: Tally) -> Group:
    """Renders the live table with the longest-running attempts."""
    from rich.console import Group as RichGroup
    from rich.text import Text

    now = time.monotonic()
    longest = sorted(tally.running.items(), key=lambda item: item[1])[:LONGEST_RUNNING]
    lines = [Text(f"  {plain(name)[:WIDE]}  {format_seconds(now - began)}", style="dim") for name, began in longest]
    more = len(tally.running) - len(longest)
    return RichGroup(_table(tally), *lines, *([Text(f"  and {more} more", style="dim")] if more > 0 else []))


def _table(tally: Tally) -> Table:
    from rich.table import Table as RichTable

    title = f"{tally.done} of {quantity(tally.total, 'attempt')}, {format_seconds(time.monotonic() - tally.began)}"
    table = RichTable(title=title, title_justify="left", show_edge=False)
    left = tally.seconds_left()
    cells = {name: str(n) for name, n in tally.outcomes.items()}
    cells |= {"stopped": str(tally.stopped), "retries": str(tally.retries), "running": str(len(tally.running))}
    cells |= {"tokens": f"{tally.tokens:,}", "cost": _cost(tally)}
    cells["left"] = "-" if left is None else format_seconds(left)
    for name in cells:
        table.add_column(name, justify="right")
    table.add_row(*cells.values())
    return table


def build_confirmation(display: Display) -> Ask | None:
    """Returns the prompt; None without a terminal, so that every guarded call is refused."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    one_at_a_time = asyncio.Lock()

    async def ask(question: Question) -> bool:
        async with one_at_a_time:
            with display.set_aside():
                return await asyncio.to_thread(_answer, question)

    return ask


def _answer(question: Question) -> bool:
    """Returns True only for an explicit yes. Escapes control characters in the agent's text."""
    lines = (
        f"The agent at {question.task} wants to call {question.tool} with",
        f"  {question.arguments[:SHOWN]}",
        f"Rule {question.rule}: {question.reason}",
        "Allow it? [y/N] ",
    )
    sys.stderr.write(plain("\n".join(lines)))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
