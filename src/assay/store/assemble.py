"""Assembles a chain's events into a trajectory. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from assay.errors import StoreError
from assay.records import (
    AttemptEnded,
    AttemptStarted,
    Event,
    EvidenceAdded,
    ModelCalled,
    Noted,
    StepAdded,
    Trajectory,
    Verdict,
    VerdictAdded,
)
from assay.verdicts import outcome_verdicts, worst_outcome

from .rows import ends_attempt


def assemble(events: Sequence[Event]) -> Trajectory:
    """Returns the trajectory of one chain; verdicts after its end do not change its `outcome`. Raises `StoreError`
    where the chain does not begin with `AttemptStarted`."""
    first = events[0].body if events else None
    if not isinstance(first, AttemptStarted):
        raise StoreError(
            f"chain {events[0].chain if events else '?'} does not begin with attempt_started: run assay verify"
        )
    of_type: dict[type, list[Any]] = defaultdict(list)
    first_judged: list[Verdict] | None = None
    for event in events:
        body = event.body
        of_type[type(body)].append(body)
        if first_judged is None and ends_attempt(body):
            first_judged = [b.verdict for b in of_type[VerdictAdded]]
    verdicts = tuple(b.verdict for b in of_type[VerdictAdded])
    calls, ends = [b.call for b in of_type[ModelCalled]], of_type[AttemptEnded]
    return Trajectory(
        run=first.run,
        attempt=first.attempt,
        chain=events[0].chain,
        task=first.task,
        task_digest=first.task_digest,
        agent=first.agent,
        model=first.model,
        seed=first.seed,
        number=first.number,
        retry=first.retry,
        started=first,
        finished=ends[-1] if ends else None,
        isolation=first.isolation,
        steps=tuple(b.step for b in of_type[StepAdded]),
        calls=tuple(call for call in calls if call.actor != "user"),
        user_calls=tuple(call for call in calls if call.actor == "user"),
        evidence=tuple(b.evidence for b in of_type[EvidenceAdded]),
        verdicts=verdicts,
        notes=tuple(of_type[Noted]),
        head=events[-1].digest,
        length=len(events),
        outcome=worst_outcome(v.status for v in outcome_verdicts(verdicts if first_judged is None else first_judged)),
    )
