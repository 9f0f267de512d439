"""Counts what stored runs say of a skill: who loaded which version, with what result, beside attempts without it.

Attempts are read after their hash chains verified. A version is recognised by the digest of the SKILL.md that the
agent recorded as loaded. The effect compares tasks that the same agent with the same model tried with this version and
without any skill; a task's rate is over its judged attempts, and a doubted pass counts as a fail.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from assay.learning.reading import RunReader
from assay.learning.rows_config import RowsConfig
from assay.records import digest_bytes
from assay.settings import Settings
from assay.statistics import Interval, difference_interval
from assay.verdicts import trust_of

from .evidence import loaded_skill
from .folder import SKILL_FILE
from .library import SkillLibrary

LEAST_TASKS = 10
"""Tasks with both kinds of attempts below which no effect is stated."""


class VersionUsage(msgspec.Struct, frozen=True):
    """Counters of one version of a skill."""

    version: str
    loaded: int
    """Attempts that recorded it as loaded."""
    judged: int
    passed: int
    tasks: int
    """Tasks that were also tried without a skill, by the same agent with the same model."""
    difference: float | None
    """Mean over these tasks of the rate with it minus the rate without; None below `LEAST_TASKS` tasks."""
    low: float | None
    high: float | None
    """95% interval of the difference, over tasks."""

    @property
    def is_harmful(self) -> bool:
        """Returns whether the whole interval lies below 0."""
        return self.high is not None and self.high < 0


class _Judged(NamedTuple):
    """One attempt."""

    skill: str | None
    """Digest of the SKILL.md that it loaded."""
    place: tuple[str, str | None, str]
    """Agent, model and task."""
    passed: bool | None
    """None if it is not judged."""


def count_usage(name: str, runs: Sequence[str], settings: Settings) -> tuple[VersionUsage, ...]:
    """Returns the counters of each version of a skill that some attempt of the runs loaded, the oldest first.

    Raises:
        UserError: The skill is unknown.
        StoreError: A run is not what was recorded.
    """
    library = SkillLibrary(settings.store)
    versions: dict[str, str] = {}
    for entry in library.entries(name):
        if entry.version not in versions.values():
            versions[digest_bytes(library.load(name, entry.version).files[SKILL_FILE])] = entry.version
    attempts = [one for run in runs for one in _read_run(run, settings)]
    without: dict[object, list[bool]] = defaultdict(list)
    for one in attempts:
        if one.skill is None and one.passed is not None:
            without[one.place].append(one.passed)
    return tuple(
        _count(version, [one for one in attempts if one.skill == digest], without)
        for digest, version in versions.items()
        if any(one.skill == digest for one in attempts)
    )


def _read_run(run: str, settings: Settings) -> list[_Judged]:
    found = []
    with RunReader.open(settings, run, RowsConfig()) as reader:
        for one in reader.trajectories():
            kind = trust_of(one).outcome_class
            passed = kind == "pass" if kind in ("pass", "fail", "doubt") else None
            found.append(_Judged(loaded_skill(one), (one.agent, one.model, one.task_digest), passed))
    return found


def _count(version: str, attempts: Sequence[_Judged], without: dict[object, list[bool]]) -> VersionUsage:
    by_place: dict[object, list[bool]] = defaultdict(list)
    for one in attempts:
        if one.passed is not None:
            by_place[one.place].append(one.passed)
    differences = [_mean(own) - _mean(without[place]) for place, own in by_place.items() if place in without]
    judged = [one for own in by_place.values() for one in own]
    interval: Interval | None = difference_interval(differences) if len(differences) >= LEAST_TASKS else None
    low, high = (None, None) if interval is None else interval
    mean = None if interval is None else sum(differences) / len(differences)
    return VersionUsage(version, len(attempts), len(judged), sum(judged), len(differences), mean, low, high)


def _mean(values: Sequence[bool]) -> float:
    return sum(values) / len(values)
