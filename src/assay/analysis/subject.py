"""What rules are handed, and what a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from assay.records import Trajectory

from .interface import Action, Family, Finding, Severity

__all__ = ["Rule", "Subject", "apply_rules"]


class Subject(NamedTuple):
    """One trajectory as rules see it."""

    trajectory: Trajectory
    actions: tuple[Action, ...]
    """Of the trajectory's agents, in order (`assay.analysis.actions.actions_of`)."""
    texts: Callable[[str], str | None]
    """Text of a blob by its digest; None where it is unknown or no text."""


class Rule(NamedTuple):
    """A rule: called with a subject it gives its findings. All of them carry its name.

    `severity` is the highest that it gives; a finding may be milder, and says why in its summary.
    """

    name: str
    """Stable; lower case and hyphens."""
    family: Family
    severity: Severity
    means: str
    """What a finding says, in a sentence or two, for the reference page."""
    closed_by: str
    """What makes it impossible, or what settles a finding of it."""
    find: Callable[[Subject], Iterable[Finding]]

    def __call__(self, subject: Subject) -> Iterable[Finding]:
        """The findings."""
        return self.find(subject)


def apply_rules(rules: Sequence[Rule], subject: Subject) -> Iterator[Finding]:
    """Findings of all the rules, in the rules' order."""
    for rule in rules:
        yield from rule(subject)
