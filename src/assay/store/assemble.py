"""Assembles a chain's events into a trajectory. Pure."""

from __future__ import annotations

from collections.abc import Sequence

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
    bodies = [e.body for e in events]
    verdicts = tuple(b.verdict for b in bodies if isinstance(b, VerdictAdded))
    end = next((index for index, body in enumerate(bodies) if ends_attempt(body)), len(bodies))
    first_judged = outcome_verdicts([b.verdict for b in bodies[:end] if isinstance(b, VerdictAdded)])
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
        finished=next((b for b in reversed(bodies) if isinstance(b, AttemptEnded)), None),
        isolation=first.isolation,
        steps=tuple(b.step for b in bodies if isinstance(b, StepAdded)),
        calls=tuple(b.call for b in bodies if isinstance(b, ModelCalled) and b.call.actor != "user"),
        user_calls=tuple(b.call for b in bodies if isinstance(b, ModelCalled) and b.call.actor == "user"),
        evidence=tuple(b.evidence for b in bodies if isinstance(b, EvidenceAdded)),
        verdicts=verdicts,
        notes=tuple(b for b in bodies if isinstance(b, Noted)),
        head=events[-1].digest,
        length=len(events),
        outcome=worst_outcome(v.status for v in first_judged),
    )
