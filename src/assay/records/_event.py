"""The chain: what is appended, in order, while an attempt happens.

Every event carries the digest of its own canonical bytes and of the event before it, so a changed, removed, inserted
or swapped event is found by recomputing. An unkeyed chain does not show a complete rewrite or a cut tail: keep the
head elsewhere for that.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ._call import ModelCall
from ._evidence import Evidence, Verdict
from ._isolation import Isolation
from ._step import Step

__all__ = [
    "GENESIS",
    "AgentProcess",
    "AttemptEnded",
    "AttemptStarted",
    "Body",
    "Event",
    "EvidenceAdded",
    "ModelCalled",
    "Noted",
    "StepAdded",
    "VerdictAdded",
]

AgentProcess = Literal["runner", "sandbox"]
GENESIS = "blake3:" + "0" * 64
"""What the first event of a chain names as its predecessor."""


class AttemptStarted(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="attempt_started"):
    """The first event of every chain: one try at one attempt."""

    run: str
    attempt: str
    task: str
    task_digest: str
    agent: str
    model: str | None
    seed: int
    number: int
    """Which attempt at this task by this agent, from 0."""
    retry: int = 0
    """Which try at this attempt, from 0; tries after the first have an infrastructure cause."""
    isolation: Isolation | None = None
    config: dict[str, Any] = {}
    at: float | None = None
    assay_version: str | None = None
    agent_process: AgentProcess | None = None
    """Where the agent's own program ran: `runner` (a Python object in the runner's process, as trusted as the runner)
    or `sandbox` (a command-line harness); None in records that do not say."""
    takes_solution: bool | None = None
    """Whether the agent was given the task's reference solution; None in records that do not say."""
    attempts_task: bool | None = None
    """False for a baseline, whose rate says nothing about the task's difficulty; None in records that do not say."""


class StepAdded(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="type", tag="step"):
    """A turn."""

    step: Step


class ModelCalled(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="type", tag="model_call"):
    """An exchange with a model."""

    call: ModelCall


class EvidenceAdded(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="evidence"):
    """A fact."""

    evidence: Evidence


class VerdictAdded(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="verdict"):
    """A judgement."""

    verdict: Verdict


class Noted(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="type", tag="note"):
    """Something that happened to the record itself (`interrupted`, `retried`, ...), with its details."""

    name: str
    data: dict[str, Any] = {}
    at: float | None = None


class AttemptEnded(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="attempt_ended"):
    """The last event of a finished chain. The three causes are kept apart and any of them may be None."""

    ended: str | None = None
    """The agent said that it was done, or the environment terminated: in words."""
    stopped: str | None = None
    """Which limit stopped it, or `cancelled`."""
    broke: str | None = None
    """Whose boundary failed (`provider`, `task`, `environment`, `agent`, `verifier`, `store`)."""
    error: str | None = None
    metrics: dict[str, float] = {}
    artifacts: dict[str, str] = {}
    """Path to digest."""
    at: float | None = None


Body = AttemptStarted | StepAdded | ModelCalled | EvidenceAdded | VerdictAdded | Noted | AttemptEnded


class Event(msgspec.Struct, frozen=True, gc=False):
    """A link of the chain. `digest` is over the canonical bytes of `(chain, index, previous, body)`.

    `chain` is the id of the try (`<attempt>.<retry>`).
    """

    chain: str
    index: int
    previous: str
    body: Body
    digest: str
