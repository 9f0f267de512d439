"""The view of a run's attempts: columns, so that 20,000 of them are a few megabytes that a page filters by itself.

Texts that repeat stand once, in `names`; columns hold their positions there (-1: none).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.analysis.card import outcome_words
from assay.store import ADMISSION, AttemptRow, RunStore, Standing, standing

from .interface import Fields, View, json_bytes, named
from .runs import outcome_class

__all__ = ["VIEWS", "columns_of", "rows_of_run"]

LONGEST = 300
"""Characters of a text of a row that the table holds; an attempt's own page has the whole."""
_REPEATED = ("task", "agent", "model", "headline", "outcome", "integrity", "process", "safety", "again", "how")


def columns_of(rows: Sequence[AttemptRow], stands: Mapping[str, Standing]) -> dict[str, Any]:
    """Attempts as columns: `{"count", "names": {column: texts}, "columns": {column: values}}`.

    Args:
        rows: One a chain.
        stands: By chain, how it stands now.
    """
    records = [_record(row, stands.get(row.chain)) for row in rows]
    columns: dict[str, list[Any]] = {name: [] for name in (*_PLAIN, *_REPEATED)}
    names: dict[str, list[str]] = {}
    for name in _PLAIN:
        columns[name] = [record[name] for record in records]
    for name in _REPEATED:
        places: dict[str, int] = {}
        columns[name] = [_place(places, record[name]) for record in records]
        names[name] = list(places)
    return {"count": len(rows), "names": names, "columns": columns}


def _place(places: dict[str, int], text: str | None) -> int:
    return -1 if text is None else places.setdefault(text[:LONGEST], len(places))


_PLAIN = (
    "chain", "attempt", "number", "retry", "final", "steps", "score", "started", "seconds", "tokens", "cost", "error",
)  # fmt: skip


def _record(row: AttemptRow, stand: Standing | None) -> dict[str, Any]:
    integrity, again = (stand.integrity, stand.reverified) if stand else (row.integrity, None)
    safety = stand.safety if stand else None
    metrics = row.metrics
    tokens = [metrics[name] for name in ("prompt_tokens", "completion_tokens") if name in metrics]
    return {
        "chain": row.chain,
        "attempt": row.attempt,
        "number": row.number,
        "retry": row.retry,
        "final": int(row.final or row.finished is None),
        "steps": row.steps,
        "score": row.score,
        "started": None if row.started is None else round(row.started, 3),
        "seconds": _rounded(metrics.get("wall_s")),
        "tokens": int(sum(tokens)) if tokens else None,
        "cost": metrics.get("cost_usd"),
        "error": (row.error or "")[:LONGEST] or None,
        "task": row.task,
        "agent": row.agent,
        "model": row.model,
        "headline": outcome_words(row.outcome, integrity, again, safety),
        "outcome": outcome_class(row, again, integrity),
        "integrity": integrity,
        "process": stand.process if stand else None,
        "safety": safety,
        "again": again,
        "how": _how(row),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _how(row: AttemptRow) -> str:
    """How it ended, in few words that many attempts have in common."""
    if row.finished is None:
        return "cut" if row.interrupted else "running"
    if row.broke is not None:
        return f"broke: {row.broke}"
    return f"stopped: {row.stopped}" if row.stopped is not None else "ended"


def rows_of_run(root: Path, run: str) -> dict[str, Any]:
    """All attempts of a run as columns, with the place in its record that they are of."""
    with RunStore.open(root, run) as store, store.snapshot():
        every = store.attempts()
        last = None if store.is_sealed else store.last_seq()
    rows = _attempts(every)
    certificates = len(every) - len(rows)
    return {"run": run, "seq": last, "certificates": certificates} | columns_of(rows, standing(root, run))


def _attempts(rows: Iterable[AttemptRow]) -> list[AttemptRow]:
    return [row for row in rows if row.agent != ADMISSION]  # a certificate is no attempt


def _rows(root: Path, fields: Fields) -> bytes:
    return json_bytes(rows_of_run(root, fields["run"]))


def _names(_: Path, run: str) -> tuple[str, ...]:
    return (named("run", run, "rows"),)


VIEWS = (View("run/{run}/rows", _rows, _names),)
