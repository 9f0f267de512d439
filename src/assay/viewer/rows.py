"""The view of a run's attempts as columns: 20,000 of them are a few megabytes, which a page filters by itself.

Repeated texts are stored once, in `names`; columns hold their positions there (-1: none).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.records import digest_bytes
from assay.store import ADMISSION, AttemptRow, RunStore
from assay.verdicts import CurrentVerdicts, assess

from .interface import Fields, View, json_bytes, run_view_name
from .judged_rows import read_judged_rows

LONGEST = 300
"""Characters of a text in the table; an attempt's own page has the whole."""


def attempt_columns(rows: Sequence[AttemptRow], stands: Mapping[str, CurrentVerdicts]) -> dict[str, Any]:
    """Returns attempts as columns: `{"count", "names": {column: texts}, "columns": {column: values}}`; `stands` by
    chain.
    """
    columns, names = _plain(rows), {}
    for name, texts in _repeated(rows, [stands.get(row.chain) or _first_judgement(row) for row in rows]).items():
        places: dict[str, int] = {}
        columns[name] = [-1 if text is None else places.setdefault(text, len(places)) for text in texts]
        names[name] = [shorten_name(text) for text in places]
    return {"count": len(rows), "names": names, "columns": columns}


def shorten_name(text: str) -> str:
    """Shortens a long name, keeping it distinct."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 9]}…{digest_bytes(text.encode())[7:15]}"


def _plain(rows: Sequence[AttemptRow]) -> dict[str, list[Any]]:
    metrics = [row.metrics for row in rows]
    return {
        "chain": [row.chain for row in rows],
        # Most names of attempts follow from their chains.
        "attempt": [None if row.chain == f"{row.attempt}.{row.retry}" else row.attempt for row in rows],
        "number": [row.number for row in rows],
        "retry": [row.retry for row in rows],
        "final": [int(row.final or row.finished is None) for row in rows],
        "steps": [row.steps for row in rows],
        "score": [row.score for row in rows],
        "started": [_rounded(row.started) for row in rows],
        "seconds": [_rounded(found.get("wall_s")) for found in metrics],
        "tokens": [_total_tokens(found) for found in metrics],
        "cost": [found.get("cost_usd") for found in metrics],
        "error": [row.error[:LONGEST] if row.error else None for row in rows],
    }


def _repeated(rows: Sequence[AttemptRow], stands: Sequence[CurrentVerdicts]) -> dict[str, Iterable[str | None]]:
    trusts = [assess(stand, row) for row, stand in zip(rows, stands, strict=True)]
    return {
        "task": [row.task for row in rows],
        "agent": [row.agent for row in rows],
        "model": [row.model for row in rows],
        "headline": [trust.headline for trust in trusts],
        "outcome": [trust.outcome_class for trust in trusts],
        "separation": [trust.separation for trust in trusts],
        "integrity": [stand.integrity for stand in stands],
        "process": [stand.process for stand in stands],
        "safety": [stand.safety for stand in stands],
        "again": [stand.reverified for stand in stands],
        "how": [_ending(row) for row in rows],
    }


def _first_judgement(row: AttemptRow) -> CurrentVerdicts:
    return CurrentVerdicts(row.outcome, row.score, None, row.integrity, None, None, separation=row.separation)


def _total_tokens(metrics: Mapping[str, float]) -> int | None:
    """Returns the total number of tokens; None where either number is missing or invalid."""
    total = metrics.get("prompt_tokens", math.nan) + metrics.get("completion_tokens", math.nan)
    return int(total) if math.isfinite(total) else None


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def _ending(row: AttemptRow) -> str:
    """Returns a short description of how an attempt ended."""
    if row.finished is None:
        return "cut" if row.interrupted else "running"
    if row.broke is not None:
        return f"broke: {row.broke}"
    return f"stopped: {row.stopped}" if row.stopped is not None else "ended"


def list_rows(root: Path, run: str) -> dict[str, Any]:
    """Returns all attempts of a run as columns, with the last event that they include."""
    with RunStore.open(root, run) as store, store.snapshot():
        last = None if store.is_sealed else store.live.last_seq()
        every, stands = read_judged_rows(store)
        rows = [row for row in every if row.agent != ADMISSION]  # certificates are not attempts
        on_nodes = "place" in store.manifest()  # as `assay run --nodes` writes it
    facts = {"run": run, "seq": last, "certificates": len(every) - len(rows), "on_nodes": on_nodes}
    facts["of_service"] = (root / "service" / f"{run.removeprefix('batch-')}.json").is_file()
    return facts | attempt_columns(rows, stands)


def _rows(root: Path, fields: Fields) -> bytes:
    return json_bytes(list_rows(root, fields["run"]))


VIEWS = (View("run/{run}/rows", _rows, run_view_name("rows")),)
