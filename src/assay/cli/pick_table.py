"""The table `picks` of `assay stats`: what a judge said of the try that a combinator picked, and what was verified."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.analysis.columns import measure_attempts
from assay.records import EvidenceAdded
from assay.statistics import difference_interval
from assay.store import RunStore, decode_body, final_rows, load_current_verdicts

if TYPE_CHECKING:
    from assay.records import Separation


class _RecordedTry(msgspec.Struct, frozen=True):
    branch: int
    score: float | None = None


class _RecordedPick(msgspec.Struct, frozen=True):
    by: str
    tries: tuple[_RecordedTry, ...]
    judge: str | None = None
    privileged: bool = False
    picked: int | None = None


class Pick(NamedTuple):
    """One attempt of a combinator: what its judge said of the try that it handed in, and what was verified."""

    agent: str
    model: str | None
    task: str
    judge: str
    is_privileged: bool
    tries: int
    said: float
    passed: bool


def read_picks(root: Path, runs: Sequence[str], require: Separation) -> tuple[Pick, ...]:
    """Returns what combinators picked by a judge in the judged attempts; a doubtful pass counts as failed."""
    found = []
    for run in runs:
        with RunStore.open(root, run) as store:
            rows, current = final_rows(store.attempts()), load_current_verdicts(root, run)
            measured = measure_attempts(rows, current, require=require)
            for row, one in zip(rows, measured, strict=True):
                status, pick = one.outcome.status, _read_pick(store, row.chain)
                if pick is not None and status in ("pass", "fail"):
                    passed = status == "pass" and not one.outcome.doubtful
                    found.append(Pick(row.agent, row.model, row.task, *pick, passed))
    return tuple(found)


def _read_pick(store: RunStore, chain: str) -> tuple[str, bool, int, float] | None:
    """Returns judge, privilege, number of tries and score of the picked try; None without a judged pick.

    Of the task's own verifier only a full score is a claim: its partial credit says that the try failed.
    """
    for link in store.links(chain, b'"kind":"pick"'):
        body = decode_body(link)
        if not isinstance(body, EvidenceAdded) or body.evidence.kind != "pick":
            continue
        with suppress(msgspec.ValidationError):  # a run that was imported may have any evidence
            pick = msgspec.convert(body.evidence.data, _RecordedPick)
            said = next((one.score for one in reversed(pick.tries) if one.branch == pick.picked), None)
            if pick.judge is not None and said is not None and 0 <= said <= 1:
                return pick.judge, pick.privileged, len(pick.tries), float(said >= 1) if pick.privileged else said
    return None


def sum_picks(picks: Sequence[Pick]) -> list[dict[str, Any]]:
    """Returns for each agent, model and judge its claims beside what was verified."""
    groups: dict[tuple[str, str | None, str, bool], dict[str, list[Pick]]] = {}
    for one in picks:
        by_task = groups.setdefault((one.agent, one.model, one.judge, one.is_privileged), {})
        by_task.setdefault(one.task, []).append(one)
    found = []
    for (agent, model, judge, is_privileged), by_task in groups.items():
        gaps = [fmean(one.said - one.passed for one in several) for several in by_task.values()]
        judged = [one for several in by_task.values() for one in several]
        interval = difference_interval(gaps)
        found.append(
            {
                "agent": agent,
                "model": model,
                "judge": judge,
                "upper_bound": is_privileged,
                "attempts": len(judged),
                "tries": fmean(one.tries for one in judged),
                "said": fmean(one.said for one in judged),
                "verified": fmean(one.passed for one in judged),
                "gap": fmean(gaps),
                "gap_low": None if interval is None else interval.low,
                "gap_high": None if interval is None else interval.high,
                "overfits": interval is not None and interval.low > 0,
            }
        )
    return found


def pick_rows(picks: Any) -> list[dict[str, str]]:
    """Returns the printed rows."""
    return [
        {
            "agent": one["agent"],
            "model": one["model"] or "-",
            "judge": one["judge"][:40],
            "attempts": str(one["attempts"]),
            "tries": f"{one['tries']:.2f}",
            "judge says": f"{one['said']:.3f}",
            "verified": f"{one['verified']:.3f}",
            "gap [95%]": f"{one['gap']:+.3f}"
            + ("" if one["gap_low"] is None else f" [{one['gap_low']:+.3f}, {one['gap_high']:+.3f}]"),
            "finding": "judge overfits" if one["overfits"] else "upper bound" if one["upper_bound"] else "-",
        }
        for one in picks
    ]
