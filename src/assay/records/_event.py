"""The event chain of an attempt, in order of occurrence.

Every event contains the digest of its own canonical bytes and of the previous event, so recomputing reveals changed,
removed, inserted or swapped events. An unkeyed chain does not reveal a complete rewrite or a cut tail: store the head
elsewhere for that.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ._call import ModelCall
from ._evidence import Evidence, Verdict
from ._isolation import Isolation
from ._step import Step

AgentProcess = Literal["runner", "sandbox"]
GENESIS = "blake3:" + "0" * 64
"""Predecessor of the first event of a chain."""


class AttemptStarted(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="attempt_started"):
    """First event of every chain: one trial of one attempt."""

    run: str
    attempt: str
    task: str
    task_digest: str
    agent: str
    model: str | None
    seed: int
    number: int
    """Number of the attempt at this task by this agent, from 0."""
    retry: int = 0
    """Number of the trial of this attempt, from 0; later trials have an infrastructure cause."""
    isolation: Isolation | None = None
    config: dict[str, Any] = {}
    at: float | None = None
    assay_version: str | None = None
    agent_process: AgentProcess | None = None
    """Location of the agent's program: `runner` (a Python object in the runner's process, as trusted as the runner) or
    `sandbox` (a command-line harness); None in older records."""
    takes_solution: bool | None = None
    """True if the agent receives the reference solution; None in older records."""
    attempts_task: bool | None = None
    """False for a baseline, whose rate is unrelated to the task's difficulty; None in older records."""


class StepAdded(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="type", tag="step"):
    """A turn."""

    step: Step


class ModelCalled(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="type", tag="model_call"):
    """An exchange with a model."""

    call: ModelCall


class EvidenceAdded(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="evidence"):
    """An observed fact."""

    evidence: Evidence


class VerdictAdded(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="verdict"):
    """A judgement."""

    verdict: Verdict


class Noted(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, tag_field="type", tag="note"):
    """An event about the record itself (`interrupted`, `retried`, ...), with its details."""

    name: str
    data: dict[str, Any] = {}
    at: float | None = None


class AttemptEnded(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="type", tag="attempt_ended"):
    """The last event of a finished chain. The three causes are separate; any of them may be None."""

    ended: str | None = None
    """The agent's or the environment's reason for ending, as text."""
    stopped: str | None = None
    """Limit that stopped it, or `cancelled`."""
    broke: str | None = None
    """Boundary that failed (`provider`, `task`, `environment`, `agent`, `verifier`, `store`, `user`)."""
    error: str | None = None
    metrics: dict[str, float] = {}
    artifacts: dict[str, str] = {}
    """Path to digest."""
    at: float | None = None
    traceback: str | None = None
    """Last frames of the exception that broke it, outermost first, where foreign Python code raised one."""


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
