"""Chains of events for the tests of trust."""

from __future__ import annotations

from collections.abc import Sequence

from assay.records import AttemptEnded, AttemptStarted, Body, Event, Noted, Trajectory, Verdict, VerdictAdded
from assay.store.assemble import assemble
from tests.store.chains import make_event

__all__ = ["chain", "trajectory", "verdict"]


def verdict(
    status: str = "pass", kind: str = "outcome", check: str = "tests", marks: Sequence[str] = (), grade: str = "unknown"
) -> Verdict:
    return Verdict(check, kind, status, None, "a reason", marks=tuple(marks), separation=grade)  # type: ignore[arg-type]


def chain(*verdicts: Verdict, end: str = "ended", broke: str | None = None, number: int = 0) -> list[Body]:
    """The events of an attempt that `end`s as `ended`, `cut` or `open`."""
    ends: dict[str, list[Body]] = {
        "ended": [AttemptEnded("done", None, broke, None, {}, {}, 2.0)],
        "cut": [Noted("interrupted", {})],
        "open": [],
    }
    started = AttemptStarted("r", f"t@{number}", "t", "blake3:" + "1" * 64, "a", None, 7, number, at=1.0)
    return [started, *(VerdictAdded(v) for v in verdicts), *ends[end]]


def trajectory(*verdicts: Verdict, end: str = "ended", broke: str | None = None) -> Trajectory:
    events: list[Event] = []
    for index, body in enumerate(chain(*verdicts, end=end, broke=broke)):
        events.append(make_event("t@0.0", index, events[-1].digest if events else "", body))
    return assemble(events)
