"""Ends attempts that look hopeless, and measures how often that was wrong.

An attempt is hopeless if it has run for more turns, or for more turns without a new state, than almost any success.
Thresholds are split-conformal quantiles (Vovk et al. 2005) over successes of the same run: were attempts exchangeable,
at most the tolerated share of successes would be stopped. Attempts at other tasks, or of a changing policy, are not
quite exchangeable; so a share of hopeless attempts continues as a control, whose outcomes give the false-stop rate.

Invariant: thresholds use only attempts that no threshold could have stopped (the first rounds, and the controls), which
avoids selection bias.

A step is a turn of an agent, or of a program in the sandbox (a command-line harness).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from assay.errors import LimitReached
from assay.records import Step, Trajectory, digest_bytes
from assay.rollout.recording.recorder import Recorder
from assay.statistics import Interval, wilson

HOPELESS = "hopeless"
"""Name of the limit and of the note that explains it."""
CONTROLS = 0.2
"""Share of hopeless attempts that continue as controls."""


class StopRule(msgspec.Struct, frozen=True):
    """Thresholds beyond which an attempt is hopeless. None disables a threshold."""

    turns: int | None = None
    """Largest number of turns."""
    stale: int | None = None
    """Largest number of consecutive turns without a new state."""
    control: bool = False
    """Note only; do not stop."""


class Lengths(NamedTuple):
    """The longest turn counts of an attempt."""

    turns: int
    stale: int


class StopReason(NamedTuple):
    """The measure that made an attempt hopeless."""

    measure: str
    used: int
    allowed: int
    turn: int


class LengthTracker:
    """Tracks one attempt under a rule."""

    def __init__(self, rule: StopRule) -> None:
        self.rule = rule
        self._turns = 0
        self._stale = 0
        self._known: set[str] = set()

    def add_step(self, step: Step) -> None:
        """Adds a recorded step of the agent. Unobserved states do not count as stale."""
        self._turns += 1
        if step.state is None or step.state not in self._known:
            self._stale = 0
        else:
            self._stale += 1
        if step.state is not None:
            self._known.add(step.state)

    def lengths(self) -> Lengths:
        """Returns the current lengths."""
        return Lengths(self._turns, self._stale)

    def hopeless(self) -> StopReason | None:
        """Returns why the next turn would exceed a threshold; None if it would not."""
        next_one = {"turns": self._turns + 1, "stale": self._stale}
        for name, used in next_one.items():
            allowed = getattr(self.rule, name)
            if allowed is not None and used > allowed:
                return StopReason(name, used, allowed, self._turns)
        return None


def longest_lengths(steps: Iterable[Step]) -> Lengths:
    """Returns the longest lengths of a whole attempt."""
    watch, most = LengthTracker(StopRule()), Lengths(0, 0)
    for step in steps:
        if step.actor == "agent":
            watch.add_step(step)
            most = Lengths(*map(max, most, watch.lengths()))
    return most


def conformal_threshold(successes: Sequence[int], tolerated: float) -> int | None:
    """Returns the split-conformal quantile: the next success is longer with probability at most `tolerated`.

    None where there are too few successes to say so (fewer than `1 / tolerated - 1`).
    """
    place = math.ceil((len(successes) + 1) * (1.0 - tolerated))
    return None if place > len(successes) else sorted(successes)[place - 1]


def fit_stop_rule(successes: Sequence[Lengths], tolerated: float) -> StopRule:
    """Fits thresholds to successes; the tolerated share is split evenly over the two measures."""
    each = tolerated / len(Lengths._fields)
    return StopRule(
        turns=conformal_threshold([one.turns for one in successes], each),
        stale=conformal_threshold([one.stale for one in successes], each),
    )


def is_control(attempt: str, seed: int) -> bool:
    """Returns whether an attempt is a control: a deterministic fifth."""
    return int(digest_bytes(f"control\0{seed}\0{attempt}".encode()).removeprefix("blake3:")[:8], 16) < CONTROLS * 2**32


class StopReport(NamedTuple):
    """Early-stopping statistics of a run."""

    watched: int
    """Attempts under a rule that could stop them."""
    stopped: int
    controls: int
    """Attempts that would have been stopped, continued, and have an outcome."""
    controls_passed: int

    @property
    def false_stop_rate(self) -> float | None:
        """Share of hopeless controls that passed; None without controls."""
        return self.controls_passed / self.controls if self.controls else None

    @property
    def interval(self) -> Interval:
        """Wilson interval of the false-stop rate; (0, 1) without controls."""
        return wilson(self.controls_passed, self.controls)


def stop_report(trajectories: Iterable[Trajectory]) -> StopReport:
    """Computes statistics over the deciding trials of a run."""
    watched = stopped = controls = passed = 0
    for one in trajectories:
        rule = one.started.config.get(EARLY_STOP)
        if one.finished is None or not isinstance(rule, dict):
            continue
        watched += any(rule.get(name) is not None for name in Lengths._fields)
        stopped += one.finished.stopped == HOPELESS
        if any(note.name == HOPELESS and note.data.get("control") is True for note in one.notes):
            outcome = {v.status for v in one.verdicts if v.kind == "outcome"}
            controls += bool(outcome) and outcome <= {"pass", "fail"}
            passed += outcome == {"pass"}
    return StopReport(watched, stopped, controls, passed)


EARLY_STOP = "early_stop"
"""Key of the rule in an attempt's first event."""


class EarlyStopper:
    """Watches one trial; notes once that it is hopeless, and ends it unless it is a control."""

    def __init__(self, rule: StopRule, recorder: Recorder) -> None:
        self.watch = LengthTracker(rule)
        self._rule = rule
        self._recorder = recorder
        self._noted = False

    def check(self) -> None:
        """Called before each turn. Raises `LimitReached` for every turn beyond a threshold."""
        why = self.watch.hopeless()
        if why is None:
            return
        if not self._noted:
            self._noted = True
            self._recorder.note(HOPELESS, {**why._asdict(), "control": self._rule.control})
        if not self._rule.control:
            raise LimitReached(HOPELESS, why.used, why.allowed)
