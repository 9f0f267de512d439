"""The interface of a check: it examines a fresh fork of the final state and returns a verdict with evidence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from assay.environments.interface import Backend, Change, Snapshot, SpillTarget, WorkspaceSpec
from assay.records import Check, Evidence, Task, Trajectory, Verdict

if TYPE_CHECKING:
    from assay.verify.splice.screening import Screen

ReadTranscript = Callable[[], Trajectory]


SEED_BYTES = 32
"""Length of the seed of drawn inputs."""


class CheckInput(NamedTuple):
    """Input of a check. The check opens its own sandboxes on `state`; no agent process is alive."""

    task: Task
    folder: Path | None
    """Task folder on the host, from which tests are mounted."""
    check: Check
    backend: Backend
    spec: WorkspaceSpec
    """The agent's spec; a check derives the verifier's from it."""
    state: Snapshot
    changes: tuple[Change, ...]
    """The agent's changes to its initial state."""
    blobs: SpillTarget
    artifacts: dict[str, str]
    """Declared artifacts: path in the sandbox to digest."""
    separate: WorkspaceSpec | None = None
    """The verifier's own environment, built by the caller, for a check in `separate` mode; None: the task's image."""
    prefix: str = "e"
    """Prefix of the ids of this check's evidence, which makes them unique in the attempt."""
    seed: bytes | None = None
    """Recorded seed of drawn inputs, when a verdict is repeated; None: the check draws its own."""
    patience: float = 1.0
    """Factor of all time limits: above 1 if an earlier run met a limit on a busy host."""
    transcript: ReadTranscript | None = None
    """Reads the attempt's record so far; None where a state without its attempt is judged."""
    screen: Screen | None = None
    """Judges that find plain failures faster; None: there are none, or the state is judged for more than that."""


class CheckResult(NamedTuple):
    """A verdict and the evidence that it cites, in the order to be recorded."""

    verdict: Verdict
    evidence: tuple[Evidence, ...]
    mounts_tests: bool = False
    """The check itself mounted the task's tests, so no others with their names can have run."""


class WorldInput(NamedTuple):
    """Input of a check of an in-process world: its final facts."""

    task: Task
    check: Check
    facts: dict[str, Any]
    digest: str | None
    prefix: str = "e"
    """Prefix of the ids of this check's evidence."""
    transcript: ReadTranscript | None = None
    """As in `CheckInput`."""


@runtime_checkable
class OutcomeCheck(Protocol):
    """Kind of check, found by the entry point group `assay.checks`."""

    kind: str

    async def judge(self, given: CheckInput) -> CheckResult:
        """Judges the state. An exception becomes a verdict `error`; missing observations give `unknown`."""


@runtime_checkable
class WorldCheck(OutcomeCheck, Protocol):
    """Kind of check that also judges in-process worlds."""

    async def judge_world(self, given: WorldInput) -> CheckResult:
        """Judges final facts, as `judge`."""
