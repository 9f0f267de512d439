"""Auditing while it happens: at each step, from what has happened so far alone, go on or raise the alarm.

An auditor is a fold: it is handed one step after the other and never a list of them. `audit_online` draws the steps
from an iterator one at a time, and takes no further one once the alarm was raised; an auditor could not look ahead if
it wanted to. Which step an alarm names must be one that it has seen: anything else is an error of the auditor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from assay.records import Step

from .signs import SIGNS, Watcher
from .taxonomy import Label

__all__ = ["Alarm", "Auditor", "SignAuditor", "audit_online"]


class Alarm(NamedTuple):
    """The alarm."""

    step: int
    """The step that is held to be decisive: `Step.index`."""
    who: str
    label: Label
    reason: str
    raised_at: int = -1
    """The step at which the alarm was raised."""


class Auditor(Protocol):
    """Watches one trajectory."""

    def see(self, step: Step) -> Alarm | None:
        """Takes the next step; an alarm ends the watch."""
        ...


def audit_online(steps: Iterable[Step], auditor: Auditor) -> Alarm | None:
    """The first alarm over a trajectory; None where there is none.

    Raises:
        ValueError: The auditor named a step that it has not seen.
    """
    seen: set[int] = set()
    for step in steps:
        seen.add(step.index)
        alarm = auditor.see(step)
        if alarm is not None:
            if alarm.step not in seen:
                raise ValueError(f"the alarm names step {alarm.step}, which has not happened at step {step.index}")
            return alarm._replace(raised_at=step.index)
    return None


THRESHOLD: Final = 1.0
"""Set on the development half of Who&When."""


class SignAuditor:
    """Raises the alarm as soon as the signs that speak for one step reach a threshold."""

    def __init__(self, threshold: float = THRESHOLD) -> None:
        self._threshold = threshold
        self._watcher = Watcher()
        self._weights: defaultdict[int, float] = defaultdict(float)
        self._names: defaultdict[int, list[str]] = defaultdict(list)

    def see(self, step: Step) -> Alarm | None:
        for sign in self._watcher.see(step):
            self._weights[sign.step] += SIGNS[sign.kind].weight
            self._names[sign.step].append(sign.kind)
            if self._weights[sign.step] >= self._threshold:
                names = self._names[sign.step]
                strongest = max(names, key=lambda name: SIGNS[name].weight)
                reason = "; ".join(SIGNS[name].means for name in dict.fromkeys(names))
                return Alarm(sign.step, sign.who, SIGNS[strongest].label, reason)
        return None
