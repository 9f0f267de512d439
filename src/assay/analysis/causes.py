"""Likely cause of a replay's divergence: from replays under other circumstances, else by comparison. Pure.

A signature is all that a replay showed at its first difference, normalised. Replays of the same actions under the same
circumstances that differ reveal nondeterminism; circumstances under which they agree identify its source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from assay.records import Step, Trajectory

from .replayed import Difference
from .volatile import Volatile, normalise

CauseKind = Literal["time", "randomness", "ordering", "network", "environment", "missing", "unknown"]
EXPERIMENTS: dict[str, str] = {
    "again": "the same replay once more",
    "hash-seed-1": "with one fixed seed of Python's hashes",
    "hash-seed-2": "with the same seed once more",
    "clock-1": "with a clock that stands still at the time of the record",
    "clock-2": "with the same clock once more",
    "clock-control": "with the library that shifts clocks, and the right time",
}
"""Circumstances under which a divergent attempt is replayed again."""
Signature = tuple[object, ...]


class Cause(msgspec.Struct, frozen=True):
    """Likely cause of a divergence."""

    kind: CauseKind
    by: Literal["experiment", "comparison", "guess"]
    """`experiment`: shown by replays under other circumstances; `comparison`: visible in the records."""
    reason: str


class DivergenceFacts(msgspec.Struct, frozen=True):
    """Facts beside the signatures."""

    first: Difference
    recorded: Signature
    replayed: Signature
    missing: tuple[str, ...] = ()
    """Acts that could not be repeated."""
    changed: tuple[str, ...] = ()
    """Changed components of the sandbox."""
    network: bool = False
    """True if the sandbox had a network."""
    paths: tuple[str, ...] = ()
    """Paths that differ between two replays at the step, if known."""


def signature(trajectory: Trajectory, first: Difference, volatile: Sequence[Volatile] = ()) -> Signature:
    """Returns the replay's result at the first difference: the digest for a state, else the observations."""
    steps: list[Step] = [step for step in trajectory.steps if step.actor == "agent"]
    if first.step >= len(steps):
        return ("no step", len(steps), trajectory.outcome)
    step = steps[first.step]
    if first.field == "state":
        return (step.state,)
    return tuple(
        (normalise(o.content, volatile).text, normalise(o.stderr, volatile).text, o.exit_code, o.error, o.timed_out)
        for o in step.observations
    )


def cause_of(seen: DivergenceFacts, tried: Mapping[str, Signature]) -> Cause:
    """Returns the likely cause, given the signatures of the completed experiments by their name in `EXPERIMENTS`."""
    if "again" in tried and tried["again"] != seen.replayed:
        return _left_to_chance(seen, tried)
    if seen.missing:
        reason = f"not all that was done is in the record: {'; '.join(seen.missing[:3])}"
        return Cause("missing", "comparison", reason)
    if seen.first.reordered:
        return Cause("ordering", "comparison", "the same lines stand in another order")
    if seen.changed:
        return Cause(
            "environment", "comparison", f"the sandbox is another one than it was: {'; '.join(seen.changed[:3])}"
        )
    return _repeatable(seen, tried)


def _left_to_chance(seen: DivergenceFacts, tried: Mapping[str, Signature]) -> Cause:
    where = f" (in {', '.join(seen.paths[:3])})" if seen.paths else ""
    if _same(tried, "hash-seed-1", "hash-seed-2"):
        reason = f"two replays differ from each other{where}; with one seed of Python's hashes they are the same"
        return _unless_chance("ordering", reason, seen, tried)
    if _same(tried, "clock-1", "clock-2") and _clock_works(seen, tried):
        reason = f"two replays differ from each other{where}; with a clock that stands still they are the same"
        return _unless_chance("time", reason, seen, tried)
    reason = f"two replays of the same actions differ from each other{where}, and no circumstance makes them the same"
    return Cause("network" if seen.network else "randomness", "guess" if seen.network else "experiment", reason)


def _unless_chance(kind: CauseKind, reason: str, seen: DivergenceFacts, tried: Mapping[str, Signature]) -> Cause:
    """Returns the cause shown by two equal replays; a guess if replays without that variation agree too."""
    held = ("clock-1", "clock-2") if kind == "time" else ("hash-seed-1", "hash-seed-2")
    free = [value for name, value in tried.items() if name not in held]
    free += [seen.recorded, seen.replayed]
    if len(set(free)) == len(free):
        return Cause(kind, "experiment", reason)
    return Cause(kind, "guess", f"{reason}; but so are some of the others, so that it may be chance")


def _repeatable(seen: DivergenceFacts, tried: Mapping[str, Signature]) -> Cause:
    clock = tried.get("clock-1")
    if clock is not None and _clock_works(seen, tried):
        if clock == seen.recorded:
            return Cause("time", "experiment", "with the clock of the record the replay is as it was recorded")
        if clock != seen.replayed:
            return Cause(
                "time", "experiment", "replays agree with each other, and another clock changes what they show"
            )
    if tried.get("hash-seed-1", seen.replayed) != seen.replayed:
        reason = "replays agree with each other, and another seed of Python's hashes changes what they show"
        return Cause("ordering", "experiment", reason)
    if seen.network:
        return Cause("network", "guess", "the sandbox had a network, and what it gave may be other than it was")
    count = len(tried)
    reason = f"replays agree with each other and differ from the record; {count} other circumstances change nothing"
    return Cause("unknown", "guess", reason)


def _same(tried: Mapping[str, Signature], one: str, other: str) -> bool:
    return one in tried and tried[one] == tried.get(other)


def _clock_works(seen: DivergenceFacts, tried: Mapping[str, Signature]) -> bool:
    """Returns whether the clock-shifting library leaves the programs intact: exit codes are equal."""
    control = tried.get("clock-control")
    return control is not None and _codes(control) == _codes(seen.replayed)


def _codes(given: Signature) -> list[object]:
    return [part[2] if isinstance(part, tuple) and len(part) > 2 else None for part in given]
