"""One answer to "may this pass be believed?": the outcome class, the reason for doubt and the headline of an attempt.

Every screen, export and selection shows and counts an attempt by its `Trust`. Invariant: a pass is `trusted` only where
its record is complete, its integrity was not found wanting, its stored state was not judged otherwise later, and its
grade of separation meets what the reader requires. An unknown grade alone raises no doubt.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple, Protocol

from assay.records import Separation, Trajectory, VerdictStatus

from .current import CurrentVerdicts, Judgement, current_verdicts_of
from .separation import meets

OutcomeClass = Literal["pass", "doubt", "fail", "unknown", "error", "open"]
"""`doubt` is a pass with something against it; `error` is an attempt that infrastructure ended, or whose check broke;
`open` has not ended."""

_INTEGRITY: dict[VerdictStatus, tuple[str, str]] = {
    "fail": ("integrity failed", "its integrity is fail"),
    "error": ("integrity not judged", "its integrity is error"),
    "unknown": ("integrity unknown", "its integrity is unknown"),
}
_REVERIFIED = {
    "disagree": ("does not hold when judged again", "judging its stored state again disagrees with its verdict"),
    "flaky": ("flaky when judged again", "judging its stored state again gives different verdicts"),
}
_OPEN = ("the attempt has not ended", "its attempt has not ended")
_CUT = ("record cut", "its record was cut before the attempt ended")


class Progress(Protocol):
    """Progress of an attempt (`store.AttemptRow`)."""

    @property
    def finished(self) -> float | None: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def broke(self) -> str | None: ...


class Trust(NamedTuple):
    """The class of an attempt's outcome, with the reason to doubt a pass."""

    outcome_class: OutcomeClass
    doubt: str | None
    """Reason to distrust its pass, as a clause about the attempt; None for anything but a pass."""
    headline: str
    """The outcome in words, with everything against a pass: `pass (integrity failed)`."""
    separation: Separation

    @property
    def trusted(self) -> bool:
        """Returns whether it is a pass with nothing against it."""
        return self.outcome_class == "pass"


class _Ended(NamedTuple):
    """An attempt that ended, for callers that know nothing else of it."""

    finished: float | None = 0.0
    interrupted: bool = False
    broke: str | None = None


_ENDED = _Ended()


def assess(current: CurrentVerdicts, progress: Progress = _ENDED, require: Separation = "unknown") -> Trust:
    """Returns the trust in an attempt.

    Args:
        current: Its current verdicts.
        progress: Its row; by default it ended and nothing broke.
        require: The weakest grade of separation at which a pass counts.
    """
    against = _against(current, progress, require)
    doubt = against[0][1] if against and current.outcome == "pass" else None
    kind = outcome_class_of(current.outcome, progress, doubted=doubt is not None)
    shown = _notes_of(current, progress, [short for short, _ in against])
    said = "pass" if kind == "doubt" else kind
    return Trust(kind, doubt, f"{said} ({', '.join(shown)})" if shown else said, current.separation)


def _notes_of(current: CurrentVerdicts, progress: Progress, against: list[str]) -> list[str]:
    """Everything that the headline adds to the outcome."""
    if progress.finished is None:
        judged = [] if current.outcome is None else [f"judged {current.outcome}"]
        return [_CUT[0], *judged] if progress.interrupted else judged
    if current.outcome == "pass":
        return against + (["safety failed"] if current.safety == "fail" else [])
    return [f"{progress.broke} broke"] if current.outcome is None and progress.broke is not None else []


def trust_of(trajectory: Trajectory, later: Collection[Judgement] = (), require: Separation = "unknown") -> Trust:
    """Returns the trust in a trajectory, with verdicts given after it was read; arguments as `assess`."""
    finished = trajectory.finished
    progress = _Ended(
        finished=None if finished is None else finished.at or 0.0,
        interrupted=any(note.name == "interrupted" for note in trajectory.notes),
        broke=None if finished is None else finished.broke,
    )
    return assess(current_verdicts_of(trajectory, later), progress, require)


def outcome_class_of(outcome: VerdictStatus | None, progress: Progress, *, doubted: bool = False) -> OutcomeClass:
    """Returns the class of an attempt; one that is cut or open is never counted as judged."""
    if progress.finished is None:
        return "error" if progress.interrupted else "open"
    if outcome is None:
        return "error" if progress.broke is not None else "unknown"
    return "doubt" if doubted else outcome


def _against(current: CurrentVerdicts, progress: Progress, require: Separation) -> list[tuple[str, str]]:
    """Reasons not to believe a pass, most serious first: for the headline, and as a clause."""
    found = []
    if current.integrity in _INTEGRITY:
        found.append(_INTEGRITY[current.integrity])
    if current.reverified in _REVERIFIED:
        found.append(_REVERIFIED[current.reverified])
    if progress.finished is None:
        found.append(_CUT if progress.interrupted else _OPEN)
    if not meets(current.separation, require):
        grade = current.separation
        found.append((f"separation {grade}", f"its separation is {grade}, and {require} is required"))
    return found
