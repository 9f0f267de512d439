"""What a check is: it looks at a fresh fork of the final state and gives a verdict with evidence."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from assay.environments.interface import Backend, Change, Snapshot, SpillTarget, WorkspaceSpec
from assay.records import Check, Evidence, Task, Verdict

__all__ = ["CheckInput", "CheckResult", "OutcomeCheck"]


class CheckInput(NamedTuple):
    """What a check is given. The check opens its own sandboxes on `state`; no agent process is alive."""

    task: Task
    folder: Path | None
    """The task's folder on the host, from which tests are mounted."""
    check: Check
    backend: Backend
    spec: WorkspaceSpec
    """The agent's spec; a check derives the verifier's from it."""
    state: Snapshot
    changes: tuple[Change, ...]
    """What the agent changed, against the state it was given."""
    blobs: SpillTarget
    artifacts: dict[str, str]
    """Declared artifacts: path inside to digest."""
    separate: WorkspaceSpec | None = None
    """The verifier's own environment, built by the caller, for a check in `separate` mode; None: the task's image."""
    prefix: str = "e"
    """What the ids of this check's evidence start with, so that they are unique in the attempt."""
    seed: bytes | None = None
    """The recorded seed of drawn inputs, where a verdict is made again; None: the check draws its own."""
    patience: float = 1.0
    """The factor of all time limits, at least 1: more than 1 where an earlier run met a limit on a busy host."""


class CheckResult(NamedTuple):
    """A verdict and the evidence that it cites, in the order to be recorded."""

    verdict: Verdict
    evidence: tuple[Evidence, ...]
    mounts_tests: bool = False
    """The check itself put the task's tests in their place, so that no others of the same names can have run."""


@runtime_checkable
class OutcomeCheck(Protocol):
    """A kind of check, found by entry point `assay.checks`."""

    kind: str

    async def judge(self, given: CheckInput) -> CheckResult:
        """Judges. An exception becomes a verdict `error`; what could not be observed is `unknown`."""
        ...
