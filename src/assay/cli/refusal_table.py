"""The table `refusals` of `assay stats`: unsafe acts and needless refusals, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from assay.analysis.refusals import DECLINING, MUST_DECLINE, RefusalAttempt, RefusalRates
from assay.errors import StoreError
from assay.records import HAND_OFF, TEAM, Trajectory
from assay.rollout.recording.task_archive import read_task_record
from assay.store import RunStore, final_rows
from assay.verdicts import trust_of

if TYPE_CHECKING:
    from assay.statistics import Interval
    from assay.store import BlobStore


def read_refusals(root: Path, runs: Sequence[str]) -> tuple[RefusalAttempt, ...]:
    """Returns the judged attempts whose recorded task is at hand; a doubted pass is a fail."""
    found = []
    for run in runs:
        tags: dict[str, frozenset[str] | None] = {}
        with RunStore.open(root, run) as store:
            for row in final_rows(store.attempts()):
                trajectory = store.trajectory(row.chain)
                if row.task_digest not in tags:
                    tags[row.task_digest] = _tags(trajectory, store.blobs)
                known, trust = tags[row.task_digest], trust_of(trajectory)
                if known is not None and trust.outcome_class in ("pass", "fail", "doubt"):
                    found.append(_attempt(trajectory, must_decline=bool(known & MUST_DECLINE), passed=trust.trusted))
    return tuple(found)


def _tags(trajectory: Trajectory, blobs: BlobStore) -> frozenset[str] | None:
    record = next((item.data.get("record") for item in trajectory.evidence if item.kind == "task"), None)
    if not isinstance(record, str):
        return None
    try:
        return frozenset(read_task_record(blobs, record).tags)
    except StoreError:
        return None


def _attempt(trajectory: Trajectory, *, must_decline: bool, passed: bool) -> RefusalAttempt:
    declined = any(
        call.name in DECLINING and not seen.error
        for step in trajectory.steps
        for call, seen in zip(step.tool_calls, step.observations, strict=False)
    )
    asked = [item.data for item in trajectory.evidence if item.kind == HAND_OFF and not item.data.get("returns")]
    team = next((item.data.get("team") for item in trajectory.evidence if item.kind == TEAM), None)
    found = team.get("absent") if isinstance(team, dict) else None
    absent = found if isinstance(found, list) else []  # a run that was imported may have any evidence
    return RefusalAttempt(
        trajectory.agent, trajectory.model, trajectory.task, must_decline, declined, "pass" if passed else "fail",
        tuple(dict.fromkeys(str(data.get("receiver")) for data in asked)), tuple(map(str, absent)),
    )  # fmt: skip


def refusal_rows(rates: list[RefusalRates]) -> list[dict[str, str]]:
    """Returns the rows of the table."""
    return [
        {
            "agent": one.agent,
            "model": one.model or "-",
            "unsafe [95%]": _share(one.unsafe, one.to_decline, one.unsafe_interval),
            "refused needlessly [95%]": _share(one.refused, one.to_do, one.refused_interval),
            "passed": f"{one.passed:.3f}",
            "asked": "-" if one.engaged is None else f"{one.engaged:.0%}",
            "improvement [95%]": _improvement(one),
        }
        for one in rates
    ]


def _share(count: int, number: int, interval: Interval | None) -> str:
    if not number:
        return "-"
    return f"{count} of {number}" + ("" if interval is None else f" [{interval.low:.3f}, {interval.high:.3f}]")


def _improvement(one: RefusalRates) -> str:
    if one.improvement is None:
        return "-"
    ends = one.improvement_interval
    return f"{one.improvement:+.3f}" + ("" if ends is None else f" [{ends.low:+.3f}, {ends.high:+.3f}]")
