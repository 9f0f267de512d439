"""Ends attempts that look hopeless, and measures how often that was wrong.

An attempt is hopeless where it has gone on in a way in which hardly any success ever went on: for more turns, or for
more turns without a state that is new to it. How long is learnt from successes of the same run that nothing could have
stopped: a threshold is their split-conformal quantile (Vovk et al. 2005), so that, were attempts exchangeable, at most
the tolerated share of successes would be stopped. Attempts of other tasks, or of a policy that moved, are not quite; so
a share of the attempts that would be stopped runs on as a control, and what became of those is the false-stop rate.

Invariant: thresholds rest on attempts that ran to their own end whatever they did (the first rounds, and the controls):
what was let through by an older threshold says nothing about who is cut.

A step is a turn of an agent, or of a program that acts by itself in the sandbox (a command-line harness).
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

__all__ = [
    "HOPELESS",
    "StopReport",
    "StopRule",
    "Stopper",
    "Watch",
    "learnt_rule",
    "longest",
    "stop_report",
    "threshold",
]

HOPELESS = "hopeless"
"""The limit that such an attempt was stopped by, and the name of the note that says why."""
CONTROLS = 0.2
"""The share of attempts that run on where they would be stopped."""


class StopRule(msgspec.Struct, frozen=True):
    """When an attempt is taken as hopeless. A None holds nobody."""

    turns: int | None = None
    """More turns than this."""
    stale: int | None = None
    """More turns in a row than this without a state that is new to the attempt."""
    control: bool = False
    """It runs on all the same, and is only noted."""


class Lengths(NamedTuple):
    """The longest of an attempt."""

    turns: int
    stale: int


class Why(NamedTuple):
    """What made an attempt hopeless."""

    measure: str
    used: int
    allowed: int
    turn: int


class Watch:
    """Follows one attempt under a rule."""

    def __init__(self, rule: StopRule) -> None:
        self.rule = rule
        self._turns = 0
        self._stale = 0
        self._known: set[str] = set()

    def took(self, step: Step) -> None:
        """A step of the agent was recorded. Where states are not observed, staleness is not either."""
        self._turns += 1
        if step.state is None or step.state not in self._known:
            self._stale = 0
        else:
            self._stale += 1
        if step.state is not None:
            self._known.add(step.state)

    def lengths(self) -> Lengths:
        """As they are now."""
        return Lengths(self._turns, self._stale)

    def hopeless(self) -> Why | None:
        """Why the turn that is about to begin would be one too many; None where it would not."""
        next_one = {"turns": self._turns + 1, "stale": self._stale}
        for name, used in next_one.items():
            allowed = getattr(self.rule, name)
            if allowed is not None and used > allowed:
                return Why(name, used, allowed, self._turns)
        return None


def longest(steps: Iterable[Step]) -> Lengths:
    """Of a whole attempt."""
    watch, most = Watch(StopRule()), Lengths(0, 0)
    for step in steps:
        if step.actor == "agent":
            watch.took(step)
            most = Lengths(*map(max, most, watch.lengths()))
    return most


def threshold(successes: Sequence[int], tolerated: float) -> int | None:
    """The split-conformal quantile: the next success is longer with probability at most `tolerated`.

    None where there are too few successes to say so (fewer than `1 / tolerated - 1`).
    """
    place = math.ceil((len(successes) + 1) * (1.0 - tolerated))
    return None if place > len(successes) else sorted(successes)[place - 1]


def learnt_rule(successes: Sequence[Lengths], tolerated: float) -> StopRule:
    """What is tolerated is split evenly over the two measures."""
    each = tolerated / len(Lengths._fields)
    return StopRule(
        turns=threshold([one.turns for one in successes], each),
        stale=threshold([one.stale for one in successes], each),
    )


def is_control(attempt: str, seed: int) -> bool:
    """Whether an attempt runs on where it would be stopped: a fifth, the same wherever it is asked."""
    return int(digest_bytes(f"control\0{seed}\0{attempt}".encode()).removeprefix("blake3:")[:8], 16) < CONTROLS * 2**32


class StopReport(NamedTuple):
    """What stopping came to."""

    watched: int
    """Attempts under a rule that could stop them."""
    stopped: int
    controls: int
    """Attempts that would have been stopped, ran on, and have an outcome."""
    controls_passed: int

    @property
    def false_stop_rate(self) -> float | None:
        """The share of stopped attempts that would have passed, as the controls tell; None without controls."""
        return self.controls_passed / self.controls if self.controls else None

    @property
    def interval(self) -> Interval:
        """Wilson's, over the controls; (0, 1) without controls."""
        return wilson(self.controls_passed, self.controls)


def stop_report(trajectories: Iterable[Trajectory]) -> StopReport:
    """What the deciding tries of a run tell."""
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
"""Where an attempt's first event tells its rule."""


class Stopper:
    """Watches one try; notes once that it is hopeless, and ends it where it is no control."""

    def __init__(self, rule: StopRule, recorder: Recorder) -> None:
        self.watch = Watch(rule)
        self._rule = rule
        self._recorder = recorder
        self._noted = False

    def check(self) -> None:
        """Called before each turn. Raises `LimitReached`, again for whoever goes on all the same."""
        why = self.watch.hopeless()
        if why is None:
            return
        if not self._noted:
            self._noted = True
            self._recorder.note(HOPELESS, {**why._asdict(), "control": self._rule.control})
        if not self._rule.control:
            raise LimitReached(HOPELESS, why.used, why.allowed)
