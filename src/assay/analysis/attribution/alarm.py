"""Online alarms: at each step, from the prefix alone, go on or say that an error was made, at which step and by whom.

The signs are those of the offline rules (`signs`), which never look ahead; an alarm is raised as soon as the signs of
a step weigh `ALARM_AT` or more. A contract's rules raise one where a step breaks them. The scores are those of
AgentForesight (arXiv 2605.08715): an alarm at another step than the labelled one is both a false positive and a miss.

Unreliable, like the rules (docs/explanation/attribution.md): an alarm is a reason to look, never a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Final, NamedTuple

import msgspec

from assay.analysis.actors import who
from assay.analysis.contracts import Contract
from assay.analysis.contracts.monitor import Monitor
from assay.records import AttemptStarted, Evidence, Step
from assay.statistics import wilson

from .rules import EARLY
from .signs import SIGNS, Label, Watcher

ALARM_AT: Final = 0.8
"""Weight at which a step raises an alarm: the best Exact-F1 on the development half of Who&When."""
_AGENTS: Final = ("agent", "other_agent")


class Alarm(msgspec.Struct, frozen=True):
    """An alarm about one step."""

    step: int
    who: str
    raised_at: int
    """Newest step of the prefix that raised it: a failed act is seen with its result."""
    weight: float
    """That of the signs; 1 for a broken rule of a contract."""
    label: Label
    reason: str


class AlarmMonitor:
    """One attempt's steps in their order; each step raises at most one alarm.

    Args:
        threshold: Weight at which signs raise an alarm.
        contracts: Contracts whose rules and permissions also do.
        started: The attempt's first event, for contracts that name its task or agent.
    """

    def __init__(
        self, threshold: float = ALARM_AT, contracts: Sequence[Contract] = (), started: AttemptStarted | None = None
    ) -> None:
        self._threshold = threshold
        self._watcher = Watcher()
        self._contracts = Monitor(contracts, started) if contracts else None
        self._signs: dict[int, list[str]] = {}
        self._places: dict[int, int] = {}
        self._raised: set[int] = set()

    def see(self, step: Step) -> tuple[Alarm, ...]:
        """Returns the alarms that this step raises, about itself or about one before it."""
        if step.actor in _AGENTS:
            self._places[step.index] = len(self._places)
        found = []
        for sign in self._watcher.see(step):
            names = self._signs.setdefault(sign.step, [])
            names.append(sign.kind)
            weight = sum(SIGNS[name].weight for name in names) * max(0.2, 1 - EARLY * self._places.get(sign.step, 0))
            if weight >= self._threshold and sign.step not in self._raised:
                self._raised.add(sign.step)
                strongest = max(names, key=lambda name: SIGNS[name].weight)
                reason = "; ".join(SIGNS[name].means for name in names)
                label = SIGNS[strongest].label
                found.append(Alarm(sign.step, sign.who, step.index, round(weight, 3), label, reason))
        return (*found, *self._broken_rules(step))

    def _broken_rules(self, step: Step) -> Iterable[Alarm]:
        if self._contracts is None:
            return
        decisions = self._contracts.ask(step)
        self._contracts.record_step(step)
        broken = [one for one in decisions if one.status == "broken"]
        if broken and step.index not in self._raised:
            self._raised.add(step.index)
            reason = "; ".join(f"{one.contract}.{one.rule}: {one.reason}" for one in broken)
            yield Alarm(step.index, who(step), step.index, 1.0, Label("planning", "constraint_ignorance"), reason)


class AlarmLabel(NamedTuple):
    """The decisive step that a person named in a failed attempt."""

    step: int
    who: str


class AlarmedAttempt(NamedTuple):
    """One attempt's first alarm, and what is known of it."""

    first: Alarm | None
    label: AlarmLabel | None
    passed: bool
    """True for a pass: an alarm there is a false one."""


class AlarmScores(msgspec.Struct, frozen=True):
    """How first alarms agree with labels; of attempts that are neither labelled nor passed nothing is known."""

    labelled: int
    exact: int
    """First alarms that name the labelled step."""
    before: int
    after: int
    missed: int
    """Labelled attempts without an alarm."""
    right_actor: int
    exact_share: tuple[float, float, float]
    """Share of exact ones among the labelled, with its 95% interval (Wilson)."""
    exact_f1: float
    mean_shift: float | None
    """Mean distance of the named from the labelled step, over labelled attempts with an alarm."""
    mean_delay: float | None
    """Steps from the labelled one to the alarm, over exact ones: 0 names it at once."""
    passed: int
    false_alarms: int
    """Passes with an alarm."""


def score_alarms(attempts: Iterable[AlarmedAttempt]) -> AlarmScores | None:
    """Returns the scores; None without a labelled or passed attempt."""
    found = list(attempts)
    labelled = [(one.first, one.label) for one in found if one.label is not None]
    safe = [one.first for one in found if one.label is None and one.passed]
    if not labelled and not safe:
        return None
    raised = [(first, label) for first, label in labelled if first is not None]
    exact = [(first, label) for first, label in raised if first.step == label.step]
    false_alarms = sum(first is not None for first in safe)
    wrong, n = len(raised) - len(exact) + false_alarms, len(labelled)
    counted = 2 * len(exact) + wrong + (n - len(exact))
    return AlarmScores(
        labelled=n,
        exact=len(exact),
        before=sum(first.step < label.step for first, label in raised),
        after=sum(first.step > label.step for first, label in raised),
        missed=n - len(raised),
        right_actor=sum(first.who == label.who for first, label in raised),
        exact_share=(len(exact) / n, *wilson(len(exact), n)) if n else (0.0, 0.0, 1.0),
        exact_f1=2 * len(exact) / counted if counted else 0.0,
        mean_shift=fmean(abs(first.step - label.step) for first, label in raised) if raised else None,
        mean_delay=fmean(first.raised_at - label.step for first, label in exact) if exact else None,
        passed=len(safe),
        false_alarms=false_alarms,
    )


def read_alarm_label(evidence: Iterable[Evidence]) -> AlarmLabel | None:
    """Returns the label that an import recorded; None without one that names a step."""
    for one in evidence:
        steps, actor = one.data.get("steps"), one.data.get("actor")
        if one.kind == "label" and isinstance(steps, list) and steps and type(steps[0]) is int:
            return AlarmLabel(steps[0], actor if isinstance(actor, str) else "agent")
    return None
