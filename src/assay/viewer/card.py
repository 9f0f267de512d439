"""The view of a run's summary: who made it, and what came of each agent with each model."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.analysis.columns import measure_attempts
from assay.records import canonical_bytes
from assay.statistics import TaskCount, count_by_task, rate_over
from assay.store import AttemptRow, RunStore, deciding, standing_of
from assay.verdicts import CurrentVerdicts

from .interface import Fields, View, json_bytes, named
from .rows import shortened
from .runs import made_at

__all__ = ["VIEWS", "GroupLine", "card"]

MOST_GROUPS = 60
LONGEST_MANIFEST = 40_000


class GroupLine(msgspec.Struct, frozen=True):
    """One agent with one model, named as in the table: counts of attempts, and pass@1 (`value`) with its interval."""

    agent: str
    model: str | None
    tasks: int
    attempts: int
    passed: int
    doubtful: int
    failed: int
    unknown: int
    error: int
    value: float | None
    low: float | None
    high: float | None
    why: str | None
    """Why there is no value."""


def card(root: Path, run: str) -> dict[str, Any]:
    """`{"facts": [[name, words]], "groups": [GroupLine], "more", "problem", "manifest": JSON text}`.

    `more` is how many groups are left out; `problem` why there are none.
    """
    with RunStore.open(root, run) as store, store.snapshot():
        rows = store.attempts()
        decided = deciding(rows)
        stands = standing_of(store, decided)
        manifest, sealed = store.manifest(), store.is_sealed
    lines, problem = _groups(decided, stands)
    text = msgspec.json.format(canonical_bytes(manifest), indent=2).decode()
    if len(text) > LONGEST_MANIFEST:
        text = f"{text[:LONGEST_MANIFEST]}\n... {len(text) - LONGEST_MANIFEST} characters more are in manifest.json"
    more = max(0, len(lines) - MOST_GROUPS)
    found = {"groups": lines[:MOST_GROUPS], "more": more, "problem": problem, "manifest": text}
    return {"facts": _facts(rows, manifest, sealed=sealed)} | found


def _groups(rows: Sequence[AttemptRow], stands: Mapping[str, CurrentVerdicts]) -> tuple[list[GroupLine], str | None]:
    """The groups, or why there are none: rows of strangers may contradict each other."""
    try:
        counts = count_by_task(one.outcome for one in measure_attempts(rows, stands))
    except ValueError as exc:
        return [], f"These attempts cannot be summed up: {exc}"
    groups: defaultdict[tuple[str, str | None], list[TaskCount]] = defaultdict(list)
    for count in counts:
        groups[count.agent, count.model].append(count)
    return [_line(*who, mine) for who, mine in groups.items()], None


def _line(agent: str, model: str | None, counts: Sequence[TaskCount]) -> GroupLine:
    found = rate_over(counts)
    return GroupLine(
        agent=shortened(agent),
        model=None if model is None else shortened(model),
        tasks=len(counts),
        attempts=sum(count.attempts for count in counts),
        passed=sum(count.passed for count in counts),
        doubtful=sum(count.doubtful for count in counts),
        failed=sum(count.failed for count in counts),
        unknown=sum(count.unknown for count in counts),
        error=sum(count.error for count in counts),
        value=found.value,
        low=found.low,
        high=found.high,
        why=None if found.value is not None else found.method,
    )


def _facts(rows: Sequence[AttemptRow], manifest: dict[str, Any], *, sealed: bool) -> list[tuple[str, str]]:
    facts = [("kept", "sealed" if sealed else "live")]
    created = made_at(manifest)
    if created is not None:
        facts.append(("made", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(created))))
    version = manifest.get("assay_version")
    if isinstance(version, str):
        facts.append(("by Assay", version[:40]))
    held = Counter(row.isolation or "unknown" for row in rows)
    facts.append(("isolation", ", ".join(name for name, _ in held.most_common(4)) or "-"))
    cut = sum(row.interrupted for row in rows)
    retried = sum(row.retried for row in rows)
    return facts + [(name, str(n)) for name, n in (("tried again", retried), ("cut", cut)) if n]


def _card(root: Path, fields: Fields) -> bytes:
    return json_bytes(card(root, fields["run"]))


def _names(_: Path, run: str) -> tuple[str, ...]:
    return (named("run", run, "card"),)


VIEWS = (View("run/{run}/card", _card, _names),)
