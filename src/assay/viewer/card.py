"""The view of a run's summary: its facts, and the results of each agent with each model."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.analysis.columns import measure_attempts
from assay.records import canonical_bytes
from assay.statistics import TaskCount, count_by_task, estimate_pass_rate
from assay.store import AttemptRow, RunStore, final_rows
from assay.verdicts import CurrentVerdicts

from .interface import Fields, View, json_bytes, run_view_name
from .judged_rows import read_judged_rows
from .rows import shorten_name
from .runs import RunState, created_at, current_state

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
    """Reason for a missing value."""


def summarize_run(root: Path, run: str) -> dict[str, Any]:
    """`{"facts": [[name, words]], "groups": [GroupLine], "more", "problem", "manifest": JSON text}`.

    `more` is the number of groups left out; `problem` the reason for their absence.
    """
    with RunStore.open(root, run) as store, store.snapshot():
        rows, stands = read_judged_rows(store)
        manifest = store.manifest()
    decided = final_rows(rows)
    lines, problem = _groups(decided, stands)
    text = msgspec.json.format(canonical_bytes(manifest), indent=2).decode()
    if len(text) > LONGEST_MANIFEST:
        text = f"{text[:LONGEST_MANIFEST]}\n... {len(text) - LONGEST_MANIFEST} characters more are in manifest.json"
    more = max(0, len(lines) - MOST_GROUPS)
    found = {"groups": lines[:MOST_GROUPS], "more": more, "problem": problem, "manifest": text}
    return {"facts": _facts(rows, manifest, current_state(root, run))} | found


def _groups(rows: Sequence[AttemptRow], stands: Mapping[str, CurrentVerdicts]) -> tuple[list[GroupLine], str | None]:
    """Returns the groups, or the reason for their absence: untrusted rows may contradict each other."""
    try:
        counts = count_by_task(one.outcome for one in measure_attempts(rows, stands))
    except ValueError as exc:
        return [], f"These attempts cannot be summed up: {exc}"
    groups: defaultdict[tuple[str, str | None], list[TaskCount]] = defaultdict(list)
    for count in counts:
        groups[count.agent, count.model].append(count)
    return [_line(*who, mine) for who, mine in groups.items()], None


def _line(agent: str, model: str | None, counts: Sequence[TaskCount]) -> GroupLine:
    found = estimate_pass_rate(counts)
    return GroupLine(
        agent=shorten_name(agent),
        model=None if model is None else shorten_name(model),
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


def _facts(rows: Sequence[AttemptRow], manifest: dict[str, Any], state: RunState) -> list[tuple[str, str]]:
    facts = [("state", str(state))]
    created = created_at(manifest)
    if created is not None:
        facts.append(("created", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(created))))
    version = manifest.get("assay_version")
    if isinstance(version, str):
        facts.append(("Assay", version[:40]))
    isolations = Counter(row.isolation or "unknown" for row in rows)
    facts.append(("isolation", ", ".join(name for name, _ in isolations.most_common(4)) or "-"))
    cut = sum(row.interrupted for row in rows)
    retried = sum(row.retried for row in rows)
    return facts + [(name, str(n)) for name, n in (("retried", retried), ("interrupted", cut)) if n]


def _card(root: Path, fields: Fields) -> bytes:
    return json_bytes(summarize_run(root, fields["run"]))


VIEWS = (View("run/{run}/card", _card, run_view_name("card")),)
