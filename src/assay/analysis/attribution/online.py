"""Online auditing: at each step, continue or raise an alarm, from the past alone.

An auditor is a fold over steps. `audit_online` draws them one at a time from an iterator and stops at the alarm, so an
auditor cannot look ahead. An alarm that names an unseen step is an error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

from assay.records import Step

from .signs import SIGNS, Watcher
from .taxonomy import Label


class Alarm(NamedTuple):
    """Alarm of an auditor."""

    step: int
    """Allegedly decisive step: `Step.index`."""
    who: str
    label: Label
    reason: str
    raised_at: int = -1
    """Step at which the alarm was raised."""


class Auditor(Protocol):
    """Online auditor of one trajectory."""

    def see(self, step: Step) -> Alarm | None:
        """Takes the next step; an alarm ends the audit."""
        ...


def audit_online(steps: Iterable[Step], auditor: Auditor) -> Alarm | None:
    """Returns the first alarm over a trajectory; None without one.

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
    """Raises the alarm once the signs of one step reach a threshold."""

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
