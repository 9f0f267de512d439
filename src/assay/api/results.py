"""Results of runs: the attempts, a table of rates, data frames, the viewer.

Outcomes are shown and counted by `assay.verdicts`, as on every other screen.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.records import Separation, Trajectory, Verdict
from assay.statistics import GroupSummary, summarise
from assay.store import AttemptRow, QueryResult, RunStore, query
from assay.store.frames import make_frame
from assay.verdicts import CurrentVerdicts, OutcomeClass, Trust, assess

from .summaries import EMPTY, DecidedAttempts, measures_of, read_decided, summary_rows
from .tables import html_table, text_table
from .viewing import ViewerHandle, serve_pages

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(__name__)
_UTC = datetime.UTC
_COLUMNS = {
    **dict.fromkeys(("run", "attempt", "task", "agent", "model"), "string"),
    "number": "int64",
    "outcome": "string",
    "doubt": "string",
    "score": "double",
    **dict.fromkeys(("separation", "integrity", "ended", "stopped", "broke", "error"), "string"),
    "steps": "int64",
    **dict.fromkeys(("prompt_tokens", "completion_tokens", "cost_usd", "wall_s"), "double"),
    **dict.fromkeys(("started", "finished"), "timestamp"),
    "isolation": "string",
    "seed": "int64",
    "chain": "string",
}
"""Columns of `RunResult.arrow`, with their types."""


class AttemptResult:
    """One attempt, by its deciding trial."""

    def __init__(self, store: Path, row: AttemptRow, current: CurrentVerdicts, trust: Trust) -> None:
        self._store, self._row, self._trust = store, row, trust
        self.run, self.attempt, self.chain = row.run, row.attempt, row.chain
        self.task, self.agent, self.model, self.number, self.seed = row.task, row.agent, row.model, row.number, row.seed
        self.score, self.steps, self.isolation, self.integrity = row.score, row.steps, row.isolation, current.integrity
        self.ended, self.stopped, self.broke, self.error = row.ended, row.stopped, row.broke, row.error

    @property
    def outcome(self) -> OutcomeClass:
        """`pass`, `doubt` (a pass with something against it), `fail`, `unknown`, `error` or `open`."""
        return self._trust.outcome_class

    @property
    def passed(self) -> bool:
        """True for a pass with nothing against it."""
        return self._trust.trusted

    @property
    def doubt(self) -> str | None:
        """Reason to distrust its pass; None for anything but a doubted pass."""
        return self._trust.doubt

    @property
    def headline(self) -> str:
        """The outcome in words, as `assay ls` shows it."""
        return self._trust.headline

    @property
    def separation(self) -> Separation:
        """How far the judge was kept from the agent's code."""
        return self._trust.separation

    @property
    def started(self) -> datetime.datetime | None:
        """When it began, in UTC."""
        return _time(self._row.started)

    @property
    def finished(self) -> datetime.datetime | None:
        """When it ended, in UTC; None while it runs."""
        return _time(self._row.finished)

    @property
    def metrics(self) -> dict[str, float]:
        """Tokens, cost and seconds by name; an amount that is not known is absent."""
        return dict(self._row.metrics)

    @cached_property
    def trajectory(self) -> Trajectory:
        """The whole record: steps, model calls, evidence, verdicts."""
        with RunStore.open(self._store, self.run) as store:
            return store.trajectory(self.chain)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts of its record, each with a reason and the evidence that it cites."""
        return self.trajectory.verdicts

    def __repr__(self) -> str:
        """Shows name and outcome."""
        return f"AttemptResult({self.attempt}, {self.agent}: {self.headline})"


class RunResult:
    """The result of a run, or of several runs of a grid. It prints as the table of `assay stats`."""

    def __init__(self, store: Path, runs: Sequence[str]) -> None:
        self.store = store.absolute()
        self.runs = tuple(runs)
        """Names of the runs."""

    @cached_property
    def attempts(self) -> tuple[AttemptResult, ...]:
        """The attempts that have ended, each by its deciding trial, in the order in which they began."""
        found = []
        for run in self._decided:
            for row in run.rows:
                current = run.current[row.chain]
                found.append(AttemptResult(self.store, row, current, assess(current, row, run.required)))
        return tuple(found)

    @cached_property
    def _decided(self) -> tuple[DecidedAttempts, ...]:
        return tuple(read_decided(self.store, run, _warn) for run in self.runs)

    @cached_property
    def summary(self) -> tuple[GroupSummary, ...]:
        """Rates with intervals, by agent and model."""
        require = self._decided[0].required
        read = dict(zip(self.runs, self._decided, strict=True))  # a run that is named twice counts once
        outcomes = [one.outcome for one in measures_of(read.values(), require)]
        return tuple(summarise(outcomes, ks=(1, 2, 4)))

    def arrow(self) -> pa.Table:
        """Returns the attempts as an Arrow table, a row each; `started` and `finished` are timestamps."""
        import pyarrow as pa

        types = {"string": pa.string(), "int64": pa.int64(), "double": pa.float64()}
        types["timestamp"] = pa.timestamp("us", tz="UTC")
        rows = [_record(one) for one in self.attempts]
        schema = pa.schema([(name, types[kind]) for name, kind in _COLUMNS.items()])
        return pa.Table.from_pylist(rows, schema=schema)

    def df(self, library: str | None = None) -> Any:
        """Returns the attempts as a data frame of pandas, else of polars; `library` names one of them.

        Raises:
            MissingLibraryError: The library is not installed.
        """
        return make_frame(self.arrow(), library)

    def query(self, sql: str, *, limit: int | None = None) -> QueryResult:
        """Runs one SELECT over the tables of these runs (`assay query`).

        Raises:
            UserError: The statement is not one SELECT, is invalid, or exceeds a limit.
        """
        return query(self.store, sql, runs=self.runs, limit=limit)

    def view(self, *, open_browser: bool = True) -> ViewerHandle:
        """Serves the web pages of these runs on loopback, and opens a browser if there is a screen; the address goes to
        stderr.

        The pages are served until the program ends; `view().wait()` keeps a script running.
        """
        page = f"#/run/{self.runs[0]}" if len(self.runs) == 1 else ""
        return serve_pages(self.store, page, open_browser=open_browser)

    def __len__(self) -> int:
        """Returns the number of attempts."""
        return len(self.attempts)

    def __iter__(self) -> Iterator[AttemptResult]:
        """Yields the attempts."""
        return iter(self.attempts)

    def __str__(self) -> str:
        """Returns the table of rates by agent and model."""
        return text_table(summary_rows(self.summary)) if self.summary else EMPTY

    def __repr__(self) -> str:
        """Returns the table, below the names of the runs."""
        return f"{self._title()}\n{self}"

    def _repr_html_(self) -> str:
        """Returns the table for a notebook."""
        return html_table(summary_rows(self.summary), self._title()) if self.summary else f"<p>{EMPTY}</p>"

    def _title(self) -> str:
        return f"run{'s' * (len(self.runs) > 1)} {', '.join(self.runs)}"


def _warn(text: str) -> None:
    _LOG.warning("%s", text)


def _record(one: AttemptResult) -> dict[str, Any]:
    used = {name: one.metrics.get(name) for name in ("prompt_tokens", "completion_tokens", "cost_usd", "wall_s")}
    return {name: getattr(one, name) for name in _COLUMNS if name not in used} | used


def _time(seconds: float | None) -> datetime.datetime | None:
    """Returns a time in UTC; None for one that no calendar has."""
    if not seconds:
        return None
    try:
        return datetime.datetime.fromtimestamp(seconds, _UTC)
    except (ValueError, OverflowError, OSError):
        return None
