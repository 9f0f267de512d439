"""Input of rules, and the rule type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from assay.records import Trajectory

from .commit_facts import CommitFacts
from .interface import Action, Family, Finding, Severity


class Subject(NamedTuple):
    """One trajectory as seen by rules."""

    trajectory: Trajectory
    actions: tuple[Action, ...]
    """Actions of the trajectory's agents, in order (`assay.analysis.actions.actions_of`)."""
    texts: Callable[[str], str | None]
    """Text of a blob by digest; None if unknown or binary."""
    commits: CommitFacts | None = None
    """Facts about commits that other attempts at the same task prove; None if there are none."""


class Rule(NamedTuple):
    """A rule: yields the findings of a subject, all under its name.

    `severity` is the highest one; a finding may be milder, and says why in its summary.
    """

    name: str
    """Stable; lower case and hyphens."""
    family: Family
    severity: Severity
    means: str
    """Meaning of a finding, for the reference page."""
    closed_by: str
    """Prevention, or how a finding is settled."""
    find: Callable[[Subject], Iterable[Finding]]

    def __call__(self, subject: Subject) -> Iterable[Finding]:
        """Yields the findings."""
        return self.find(subject)


def apply_rules(rules: Sequence[Rule], subject: Subject) -> Iterator[Finding]:
    """Yields the findings of all rules, in the rules' order."""
    for rule in rules:
        yield from rule.find(subject)
