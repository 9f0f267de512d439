"""The view of a run's summary: who made it, and what came of each agent with each model."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.analysis.columns import counted
from assay.records import canonical_bytes
from assay.statistics import GroupSummary, summarise
from assay.store import AttemptRow, RunStore, Standing, deciding, standing_of

from .interface import Fields, View, json_bytes, named

__all__ = ["VIEWS", "GroupLine", "card"]

MOST_GROUPS = 60
LONGEST_MANIFEST = 40_000


class GroupLine(msgspec.Struct, frozen=True):
    """One agent with one model: counts of attempts, and pass@1 (`value`) with its interval."""

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


def _groups(rows: Sequence[AttemptRow], stands: Mapping[str, Standing]) -> tuple[list[GroupLine], str | None]:
    """The groups, or why there are none: rows of strangers may contradict each other."""
    try:
        groups = summarise((one.outcome for one in counted(rows, stands)), ks=(1,))
        return [_line(group) for group in groups], None
    except ValueError as exc:
        return [], f"These attempts cannot be summed up: {exc}"


def _line(group: GroupSummary) -> GroupLine:
    found = group.pass_at_1
    return GroupLine(
        agent=group.agent,
        model=group.model,
        tasks=group.n_tasks,
        attempts=group.n_attempts,
        passed=group.passed,
        doubtful=group.doubtful,
        failed=group.failed,
        unknown=group.unknown,
        error=group.error,
        value=found.value,
        low=found.low,
        high=found.high,
        why=None if found.value is not None else found.method,
    )


def _facts(rows: Sequence[AttemptRow], manifest: dict[str, Any], *, sealed: bool) -> list[tuple[str, str]]:
    facts = [("kept", "sealed" if sealed else "live")]
    created = manifest.get("created")
    if isinstance(created, int | float) and 0 < created < 1e11:
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
