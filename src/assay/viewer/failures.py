"""The view of a run's failures in clusters: attempts without a trusted pass that share a signal, with examples.

Marks of verdicts and endings are known of every attempt. Reasons of verdicts and triage signals are read from the
record, of as many attempts as the time allows; the view says of how many. An attempt may be in several clusters.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from assay.analysis.signals import SIGNALS, count_signals
from assay.errors import StoreError
from assay.records import Step, VerdictAdded
from assay.store import RunStore, final_rows
from assay.store.chain import Link, decode_body
from assay.store.rows import AttemptRow
from assay.verdicts import Trust, assess

from .acts import read_steps_of
from .chains import Chain
from .cited import mark_meaning
from .interface import Fields, View, json_bytes, run_view_name
from .judged_rows import read_judged_rows

MOST_EXAMINED: Final = 300
LONGEST_S: Final = 12.0
"""Seconds after which no further attempt is read."""
MOST_CLUSTERS: Final = 60
MOST_EXAMPLES: Final = 5
LONGEST: Final = 160
_VERDICTS_AT_END: Final = 60
"""Last verdicts, and events that mention one, in which the reason is sought."""
STEPS_AT_ONCE: Final = 1000
"""Steps over which signals are counted together."""
_VARYING = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?")
_SIGNALS = {signal.name: signal.raised for signal in SIGNALS}
_Source = Literal["reason", "mark", "ending", "signal"]


class _Steps(NamedTuple):
    """The part of a trajectory that signals are counted from."""

    chain: str
    steps: Sequence[Step]


class _Clusters:
    """Attempts by signal."""

    def __init__(self) -> None:
        self._found: dict[tuple[_Source, str], dict[str, AttemptRow]] = {}

    def add(self, source: _Source, name: str, row: AttemptRow) -> None:
        self._found.setdefault((source, name[:LONGEST]), {})[row.chain] = row

    def listed(self) -> list[dict[str, Any]]:
        """Returns the clusters, the largest first."""
        ordered = sorted(self._found.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        return [_cluster(source, name, rows) for (source, name), rows in ordered[:MOST_CLUSTERS]]


def cluster_failures(root: Path, run: str) -> dict[str, Any]:
    """Returns the clusters of a run.

    Returns:
        `attempts` (decided ones), `failed` (those without a trusted pass), `examined`, and `clusters`: each with
        `source`, `name`, `means`, `attempts`, `tasks` and `examples`.

    Raises:
        StoreError: The run is missing or damaged.
    """
    clusters = _Clusters()
    with RunStore.open(root, run) as store, store.snapshot():
        every, stands = read_judged_rows(store)
        rows = final_rows(every)
        trusts = {row.chain: assess(stands[row.chain], row) for row in rows}
        failed = {row.chain: row for row in rows if not trusts[row.chain].trusted}
        for given in store.judged():
            for mark in given.marks if given.chain in failed else ():
                clusters.add("mark", mark, failed[given.chain])
        _add_endings(clusters, failed.values(), trusts)
        chosen = sorted(spread(list(failed.values())), key=lambda row: row.chain)  # as a sealed run holds them
        examined = _examine(store, chosen, clusters)
    return {
        "run": run,
        "attempts": len(rows),
        "failed": len(failed),
        "examined": examined,
        "clusters": clusters.listed(),
    }


def spread(rows: Sequence[AttemptRow]) -> list[AttemptRow]:
    """Returns at most `MOST_EXAMINED` attempts, one of each task before the second of any."""
    seen: dict[str, int] = {}
    turns = []
    for row in rows:
        seen[row.task] = seen.get(row.task, -1) + 1
        turns.append(seen[row.task])
    order = sorted(range(len(rows)), key=lambda at: (turns[at], at))
    return [rows[at] for at in order[:MOST_EXAMINED]]


def _add_endings(clusters: _Clusters, rows: Iterable[AttemptRow], trusts: Mapping[str, Trust]) -> None:
    for row in rows:
        if row.broke is not None:
            clusters.add("ending", f"broke: {row.broke}", row)
        elif row.stopped is not None:
            clusters.add("ending", f"stopped: {row.stopped}", row)
        if trusts[row.chain].outcome_class == "doubt":
            clusters.add("ending", trusts[row.chain].headline, row)


def _examine(store: RunStore, rows: Sequence[AttemptRow], clusters: _Clusters) -> int:
    """Reads reasons and signals of attempts until the time is over; returns how many were read."""
    ends, read = time.monotonic() + LONGEST_S, 0
    batch: dict[str, tuple[AttemptRow, _Steps]] = {}
    for row in rows:
        if time.monotonic() > ends:
            break
        chain = Chain(store, row, ())
        verdicts: deque[Link] = deque(maxlen=_VERDICTS_AT_END)
        try:
            steps = read_steps_of(_keep_verdicts(chain.links(0, chain.length), verdicts))[0]
            reason = _reason(verdicts)
        except StoreError:
            continue
        read += 1
        if reason:
            clusters.add("reason", _VARYING.sub("#", reason), row)
        if steps:
            batch[row.chain] = row, _Steps(row.chain, steps)
        if sum(len(one.steps) for _, one in batch.values()) > STEPS_AT_ONCE:
            _add_signals(clusters, batch)
    _add_signals(clusters, batch)
    return read


def _add_signals(clusters: _Clusters, batch: dict[str, tuple[AttemptRow, _Steps]]) -> None:
    """Adds the signals of some attempts together, which is faster than one by one; empties the batch."""
    counted = count_signals([steps for _, steps in batch.values()])
    for (row, _), counts in zip(batch.values(), counted, strict=True):
        for name in counts:
            clusters.add("signal", name, row)
    batch.clear()


def _keep_verdicts(links: Iterable[Link], kept: deque[Link]) -> Iterator[Link]:
    for link in links:
        if b'"verdict"' in link.body:
            kept.append(link)
        yield link


def _reason(links: Iterable[Link]) -> str | None:
    """Returns the reason of the newest outcome verdict other than a pass."""
    reason = None
    for link in links:
        body = decode_body(link)
        if isinstance(body, VerdictAdded) and body.verdict.kind == "outcome" and body.verdict.status != "pass":
            reason = body.verdict.reason
    return reason


def _cluster(source: _Source, name: str, rows: Mapping[str, AttemptRow]) -> dict[str, Any]:
    examples = spread(list(rows.values()))[:MOST_EXAMPLES]
    return {
        "source": source,
        "name": name,
        "means": _SIGNALS.get(name) if source == "signal" else mark_meaning(name) if source == "mark" else None,
        "attempts": len(rows),
        "tasks": len({row.task for row in rows.values()}),
        "examples": [{"chain": row.chain, "attempt": _name(row), "agent": row.agent[:80]} for row in examples],
    }


def _name(row: AttemptRow) -> str:
    """Returns an attempt's id, or task and number where the id is a digest, as an imported attempt's is."""
    return (row.attempt if "@" in row.attempt else f"{row.task}@{row.number}")[:LONGEST]


def _make(root: Path, fields: Fields) -> bytes:
    return json_bytes(cluster_failures(root, fields["run"]))


VIEWS = (View("run/{run}/failures", _make, run_view_name("failures")),)
