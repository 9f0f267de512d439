"""Filters by what is known of an attempt's task: how much a group of attempts at it has to teach, and how hard it
is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from assay.statistics import TaskCount, TaskProfile, profile_tasks

from .interface import AttemptCandidate, Selection


def contrast(
    candidates: Sequence[AttemptCandidate],
    *,
    everyone: Sequence[AttemptCandidate] = (),
    at_least: float = 0.1,
    attempts: int = 4,
) -> list[Selection]:
    """By p (1 - p) of the task, with p the share of its known attempts that passed: 0 teaches nothing, 0.25 most.

    Args:
        candidates: What is decided about.
        everyone: Whose outcomes are counted; passes that something speaks against count as failed where integrity
            failed, else not at all.
        at_least: Least contrast, in [0, 0.25].
        attempts: Fewest known attempts at the task; of fewer nothing is concluded and they are left out.
    """
    if not 0 <= at_least <= 0.25:
        raise ValueError(f"contrast lies in [0, 0.25]; got {at_least}")
    known = _profiles(everyone or candidates)

    def decide(one: AttemptCandidate) -> Selection:
        task = known.get(one.task)
        if task is None or task.attempts < attempts:
            return Selection(False, f"{task.attempts if task else 0} known attempts at its task, wanted {attempts}")
        value = task.rate * (1 - task.rate)
        return Selection(
            value >= at_least,
            f"contrast {value:.3f} (passes {task.rate:.2f} of {task.attempts}), wanted at least {at_least}",
        )

    return [decide(one) for one in candidates]


def difficulty(
    candidates: Sequence[AttemptCandidate],
    *,
    everyone: Sequence[AttemptCandidate] = (),
    bands: str | Sequence[str] = ("hard", "middling", "easy"),
) -> list[Selection]:
    """By difficulty band of the task: `never`, `hard` (below a quarter), `middling`, `easy` (above three), `always`."""
    bands = [bands] if isinstance(bands, str) else bands
    unknown = sorted(set(bands) - {"never", "hard", "middling", "easy", "always"})
    if unknown:
        raise ValueError(f"unknown band {unknown[0]!r}; expected never, hard, middling, easy, always")
    known = _profiles(everyone or candidates)

    def decide(one: AttemptCandidate) -> Selection:
        task = known.get(one.task)
        if task is None:
            return Selection(False, "no attempt at its task has a known outcome")
        return Selection(
            task.band in bands,
            f"its task is {task.band} (passes {task.rate:.2f} of {task.attempts}), wanted {' or '.join(bands)}",
        )

    return [decide(one) for one in candidates]


def _profiles(everyone: Sequence[AttemptCandidate]) -> dict[str, TaskProfile]:
    passed: Counter[str] = Counter(one.task for one in everyone if one.has_known_outcome and one.trusted)
    judged: Counter[str] = Counter(one.task for one in everyone if one.has_known_outcome)
    made = profile_tasks(TaskCount("", None, task, passed[task], judged[task] - passed[task], 0, 0) for task in judged)
    return {profile.task: profile for profile in made}
