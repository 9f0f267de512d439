"""Stepwise comparison of a replay with its record. Pure.

Texts are compared verbatim, then normalised (`volatile`). States are compared by digest; if both final states are known
by path, volatile paths are excluded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Literal

import msgspec

from assay.records import Observation, Step, Trajectory, VerdictStatus, world_calls

from .volatile import Volatile, is_volatile_path, normalise

Field = Literal["content", "stderr", "exit_code", "error", "timed_out", "state", "missing"]
Manifest = Mapping[str, str]
"""Path to its recorded kind, mode and digest, as text."""
SHOWN = 160
MOST_LISTED = 50


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """Difference between replay and record."""

    step: int
    """Position among the agent's steps."""
    field: Field
    """`missing` is a step or observation absent on one side."""
    before: str
    """Recorded text around the first differing character."""
    now: str
    call: int | None = None
    """Position among the step's observations."""
    reordered: bool = False
    """True if the lines are the same in another order."""


class PathDifference(msgspec.Struct, frozen=True):
    """Path that differs between two final states."""

    path: str
    volatile: bool
    """True if its content is volatile."""


class Comparison(msgspec.Struct, frozen=True):
    """Result of a comparison."""

    steps: int
    forks: int
    """Number of steps in forks, which are not replayed."""
    observations: int
    """Number of observations of the other steps."""
    exact: int
    """Number of identical observations."""
    normalised: int
    """Number of observations equal after normalisation."""
    states: int
    """Number of steps with a known state on both sides."""
    same_states: int
    outcome: tuple[VerdictStatus | None, VerdictStatus | None]
    """Recorded and replayed outcome."""
    different: int
    """Number of differing observations and steps, without states."""
    first: Difference | None
    differences: tuple[Difference, ...] = ()
    paths: tuple[PathDifference, ...] = ()
    """Differing paths of the final states."""
    volatile: tuple[str, ...] = ()
    """Names of the applied replacements."""

    @property
    def same_outcome(self) -> bool:
        """Returns whether the verdicts are equal."""
        return self.outcome[0] == self.outcome[1]

    @property
    def agrees(self) -> bool:
        """Returns whether every observation, every state and the outcome are equal after normalisation."""
        return self.first is None and self.same_outcome


def compare(
    recorded: Trajectory,
    again: Trajectory,
    *,
    finals: tuple[Manifest | None, Manifest | None] = (None, None),
    volatile: Sequence[Volatile] = (),
) -> Comparison:
    """Compares a replay with its record, up to volatile text; `finals` are final states by path, None if unknown."""
    comparing = _Comparer(volatile)
    pairs = list(zip_longest(_agents(recorded), _agents(again)))
    for position, (before, now) in enumerate(pairs):
        comparing.step(position, before, now)
    paths = _paths(*finals)
    states, known = comparing.states, comparing.same_states + len(comparing.states)
    if paths is not None and all(path.volatile for path in paths):
        states = []  # as far as the final states show
    found = sorted([*comparing.found, *states[:1]], key=lambda one: one.step)
    other = [path.path for path in paths or () if not path.volatile]
    if other and not states:  # what no step shows: what ran on after the last, or what was done beside them
        found.append(Difference(max(0, len(pairs) - 1), "state", *_describe_paths(other, finals)))
    return Comparison(
        steps=sum(before is not None for before, _ in pairs),
        forks=comparing.forks,
        observations=comparing.observations,
        exact=comparing.exact,
        normalised=comparing.normalised,
        states=known,
        same_states=known - len(states),
        outcome=(recorded.outcome, again.outcome),
        different=len(comparing.found),
        first=found[0] if found else None,
        differences=tuple(found[:MOST_LISTED]),
        paths=tuple((paths or ())[:MOST_LISTED]),
        volatile=tuple(sorted(comparing.names)),
    )


def _describe_paths(paths: Sequence[str], finals: tuple[Manifest | None, Manifest | None]) -> tuple[str, str]:
    """Returns the first differing path of the final states, as on both sides."""
    path = paths[0]
    before, now = ((final or {}).get(path, f"{path} is as in the image") for final in finals)
    return before[:SHOWN], now[:SHOWN]


def _agents(trajectory: Trajectory) -> list[Step]:
    return [step for step in trajectory.steps if step.actor == "agent"]


class _Comparer:
    def __init__(self, volatile: Sequence[Volatile]) -> None:
        self.found: list[Difference] = []
        self.states: list[Difference] = []
        self.same_states = self.observations = self.exact = self.normalised = self.forks = 0
        self.names: set[str] = set()
        self._volatile = volatile

    def step(self, position: int, before: Step | None, now: Step | None) -> None:
        if before is None or now is None:
            self.found.append(Difference(position, "missing", _describe_step(before), _describe_step(now)))
            return
        before = _without_team_calls(before)
        if before.tool_calls and not now.tool_calls:  # what was tried in a fork is said again and not done again
            self.forks += 1
        else:
            for call, (old, new) in enumerate(zip_longest(before.observations, now.observations)):
                self._observation(position, call, old, new)
        if before.state is not None and now.state is not None:
            if before.state == now.state:
                self.same_states += 1
            else:
                self.states.append(Difference(position, "state", before.state, now.state))

    def _observation(self, step: int, call: int, old: Observation | None, new: Observation | None) -> None:
        self.observations += 1
        if old is None or new is None:
            shown = ["nothing" if one is None else one.content[:SHOWN] for one in (old, new)]
            self.found.append(Difference(step, "missing", shown[0], shown[1], call))
            return
        fields: tuple[Field, ...] = ("exit_code", "error", "timed_out")
        odd = [name for name in fields if getattr(old, name) != getattr(new, name)]
        texts = [self._text(step, call, name, old, new) for name in ("content", "stderr")]
        for name in odd:
            self.found.append(Difference(step, name, str(getattr(old, name)), str(getattr(new, name)), call))
        self.found += [one for one in texts if isinstance(one, Difference)]
        if not odd and not any(isinstance(one, Difference) for one in texts):
            self.exact += texts == [True, True]
            self.normalised += texts != [True, True]

    def _text(self, step: int, call: int, name: str, old: Observation, new: Observation) -> Difference | bool:
        before, now = getattr(old, name), getattr(new, name)
        cuts = [one.truncated if name == "content" else one.stderr_truncated for one in (old, new)]
        whole = [None if cut is None else cut.digest for cut in cuts]
        if before == now and (whole[0] == whole[1] or None in whole):
            return True
        plain = [normalise(text, self._volatile) for text in (before, now)]
        if plain[0].text == plain[1].text:  # of a long output, what was cut is not looked at
            self.names.update(*(one.names for one in plain))
            return False
        at = _first_difference(plain[0].text, plain[1].text)
        shown = [one.text[max(0, at - 40) : at + SHOWN] for one in plain]
        lines = [sorted(one.text.splitlines()) for one in plain]
        field: Field = "content" if name == "content" else "stderr"
        return Difference(step, field, shown[0], shown[1], call, reordered=lines[0] == lines[1])


def _without_team_calls(step: Step) -> Step:
    """Returns a step of a team with the calls alone that its environment was asked for, and their results."""
    calls = world_calls(step)
    if len(calls) == len(step.tool_calls):
        return step
    asked = {call.id for call in calls}
    kept = tuple(seen for seen in step.observations if seen.call_id in asked)
    return msgspec.structs.replace(step, tool_calls=calls, observations=kept)


def _describe_step(step: Step | None) -> str:
    if step is None:
        return "no step"
    called = ", ".join(call.name for call in step.tool_calls)
    return (called or step.message or "a step")[:SHOWN]


def _first_difference(left: str, right: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _paths(before: Manifest | None, now: Manifest | None) -> list[PathDifference] | None:
    """Returns differing paths of two states, without folders that exist only for volatile content."""
    if before is None or now is None:
        return None
    differ = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
    return [PathDifference(path, is_volatile_path(path)) for path in differ]
