"""Facts about the commits of a task's repository, as git's own output in an attempt proves them.

They hold for the repository, so what one attempt proves is used in judging all attempts at the same task.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class CommitFacts(msgspec.Struct, frozen=True):
    """Commits, by abbreviated or whole id, and what is known of them."""

    past: frozenset[str] = frozenset()
    """Commits in the past of the task's own commit."""
    later: frozenset[str] = frozenset()
    """Commits that are known not to be in that past; disjoint from `past`."""
    dates: tuple[tuple[str, float], ...] = ()
    """Author dates by commit, in seconds since the epoch, sorted."""
    head: float | None = None
    """Author date of the newest dated commit of the past."""
    exact: bool = False
    """True if `head` is the date of the task's own commit."""
    named: frozenset[str] = frozenset()
    """Commits that the attempt's commands name; `--all` for changes of the whole history."""

    def is_past(self, sha: str) -> bool:
        """Returns whether a commit is known to be in the past."""
        return any(same_commit(sha, one) for one in self.past)

    def is_later(self, sha: str) -> bool | None:
        """Returns whether a commit is outside the past of the task's own commit; None if unknown."""
        if self.is_past(sha):
            return False
        if any(same_commit(sha, one) for one in self.later):
            return True
        dates = [date for one, date in self.dates if same_commit(sha, one)]
        return self.is_date_later(max(dates)) if dates else None

    def is_date_later(self, date: float) -> bool | None:
        """Returns whether a commit of this date is later than the task's own; None if unknown."""
        if self.head is None or (date > self.head and not self.exact):
            return None
        return date > self.head


def same_commit(one: str, other: str) -> bool:
    """Returns whether two ids, abbreviated or whole, can name the same commit."""
    return one.startswith(other) or other.startswith(one)


def merge_facts(facts: Iterable[CommitFacts]) -> CommitFacts:
    """Returns what several attempts at one task prove together; `named` is left empty."""
    every = list(facts)
    past = frozenset(sha for one in every for sha in one.past)
    known = CommitFacts(past)
    heads = [one.head for one in every if one.head is not None and one.exact]
    newest = [one.head for one in every if one.head is not None]
    return CommitFacts(
        past=past,
        later=frozenset(sha for one in every for sha in one.later if not known.is_past(sha)),
        dates=tuple(sorted({pair for one in every for pair in one.dates})),
        head=max(heads or newest, default=None),
        exact=bool(heads),
    )
