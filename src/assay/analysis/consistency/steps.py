"""Completeness of the recorded steps: gaps, orphaned results, unanswered calls, unlinked model calls."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from assay.analysis.interface import Finding, Quote
from assay.analysis.subject import Rule, Subject

KNOWN_SHARE = 0.9
"""Minimum portion of calls with results; below it the source does not record them."""


def _gaps(subject: Subject) -> Iterator[Finding]:
    indices = [step.index for step in subject.trajectory.steps]
    for before, after in pairwise([-1, *indices]):
        if after == before + 1:
            continue
        what = f"steps {before + 1} to {after - 1} are missing" if after > before else f"step {after} follows {before}"
        around = tuple(i for i in (before, after) if i >= 0)
        yield Finding("steps-missing", "consistency", "major", f"{what} in the record", around)


def _dangling(subject: Subject) -> Iterator[Finding]:
    known: set[str] = set()
    for step in subject.trajectory.steps:
        known |= {call.id for call in step.tool_calls if call.id}
        for seen in step.observations:
            if seen.call_id and known and seen.call_id not in known:
                line = next((text.strip()[:240] for text in seen.content.splitlines() if text.strip()), "")
                yield Finding(
                    rule="result-without-call",
                    family="consistency",
                    severity="major",
                    summary=f"step {step.index} holds a result of call {seen.call_id!r}, which no step before it made",
                    steps=(step.index,),
                    quotes=(Quote(step.index, "observation", line),) if line else (),
                )


def _unanswered(subject: Subject) -> Iterator[Finding]:
    # What a shell prints nothing for has no result in the records of some harnesses, and lacks none.
    acts = [a for a in subject.actions if a.call >= 0 and a.kind in ("read", "edit", "search", "browse")]
    if not acts:
        return
    last = subject.trajectory.steps[-1].index
    without = [a for a in acts if a.observation is None and a.step != last]
    if not without or len(without) > (1 - KNOWN_SHARE) * len(acts):
        return
    steps = tuple(dict.fromkeys(a.step for a in without))
    summary = f"{len(without)} of {len(acts)} calls have no result on record, although others followed"
    yield Finding("call-without-result", "consistency", "note", summary, steps)


def _unlinked(subject: Subject) -> Iterator[Finding]:
    calls = {call.id for call in (*subject.trajectory.calls, *subject.trajectory.user_calls)}
    if not calls:
        return
    lost = [step for step in subject.trajectory.steps if step.call is not None and step.call not in calls]
    if lost:
        named = ", ".join(str(step.call) for step in lost[:3])
        summary = f"{len(lost)} steps come from model calls that are not on record ({named})"
        yield Finding("model-call-missing", "consistency", "major", summary, tuple(step.index for step in lost))


RULES = (
    Rule(
        "steps-missing",
        "consistency",
        "major",
        "The numbers of the steps have a gap, or run back.",
        "A chain: `assay verify RUN --chain` finds what was taken out of it.",
        _gaps,
    ),
    Rule(
        "result-without-call",
        "consistency",
        "major",
        "A tool's result names a call that no step before it made.",
        "A record in which the call stands before its result.",
        _dangling,
    ),
    Rule(
        "call-without-result",
        "consistency",
        "note",
        "A few calls have no result, although the record holds those of all others and went on.",
        "A record that holds every observation; a call that was cut by a limit has none.",
        _unanswered,
    ),
    Rule(
        "model-call-missing",
        "consistency",
        "major",
        "A step names a model call that the record does not hold.",
        "A chain: `assay verify RUN --chain` finds what was taken out of it.",
        _unlinked,
    ),
)
