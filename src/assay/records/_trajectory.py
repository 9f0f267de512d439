"""An attempt assembled from its chain."""

from __future__ import annotations

import msgspec

from ._call import ModelCall
from ._event import AttemptEnded, AttemptStarted, Noted
from ._evidence import Evidence, Verdict, VerdictStatus
from ._isolation import Isolation
from ._step import Step

SCHEMA_VERSION = 2
"""Version of every record in this package. Increases when the meaning or the shape of a stored field changes."""


class Trajectory(msgspec.Struct, frozen=True):
    """One trial of one attempt: identity, course, outcome, and the head of its chain."""

    run: str
    attempt: str
    chain: str
    task: str
    task_digest: str
    agent: str
    model: str | None
    seed: int
    number: int
    retry: int
    started: AttemptStarted
    finished: AttemptEnded | None
    """None while it runs, and permanently if the runner died."""
    isolation: Isolation | None
    steps: tuple[Step, ...]
    calls: tuple[ModelCall, ...]
    """Model calls of the agents."""
    evidence: tuple[Evidence, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[Noted, ...]
    head: str
    """Digest of the last event."""
    length: int
    """Number of events."""
    outcome: VerdictStatus | None = None
    """Worst status of the outcome verdicts; None without one."""
    user_calls: tuple[ModelCall, ...] = ()
    """Model calls of the simulated person."""
    schema_version: int = SCHEMA_VERSION
