"""Finds the false answers that need not be told, because a test has already failed under the same ones.

A test is deterministic between two answers. So where a lie answers each call as the unrepaired package does, or as a
lie that was told before, the test fails as it did then.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import GeneratorType
from typing import Any

RAISED, GENERATOR = "raise", "generator"
NO_CHANGE = ("arguments emptied", "arguments levelled")
"""Answers that are `plausible value`, told before them, where the reference changes no argument."""


class HonestCalls:
    """The calls that a test makes of its entry points, unrepaired: entry point to the kinds of its answers, counted."""

    def __init__(self, kinds: Mapping[str, Mapping[str, int]] | None = None) -> None:
        self.kinds = {entry: dict(counts) for entry, counts in (kinds or {}).items()}

    def add(self, entry: str, answer: Any) -> None:
        """Adds a call that was answered."""
        self._count(entry, GENERATOR if isinstance(answer, GeneratorType) else type(answer).__name__)

    def add_raised(self, entry: str) -> None:
        """Adds a call that raised."""
        self._count(entry, RAISED)

    def _count(self, entry: str, kind: str) -> None:
        counts = self.kinds.setdefault(entry, {})
        counts[kind] = counts.get(kind, 0) + 1

    def repeats(self, name: str, liars: Mapping[str, Mapping[str, Any]], bound: frozenset[str]) -> bool:
        """Returns True where a lie tells the test nothing new.

        Args:
            name: The answer's name in the table of `false_answers`.
            liars: Entry points that lie, each with the types, shapes and changes of the reference's answers.
            bound: Entry points whose first argument is the object or the class that they are called on.
        """
        called = [self.kinds[entry] for entry in liars if entry in self.kinds]
        kinds = {kind for one in called for kind in one}
        is_plain = not kinds & {RAISED, GENERATOR}
        if not called:
            return True
        if name == "own argument":  # of a plain function, that is `first argument`
            return not bound.intersection(liars)
        if name in NO_CHANGE:
            return not any(use["changes"] for use in liars.values())
        if name.startswith("truth values "):
            return not any(use["shapes"] for use in liars.values())
        if name.endswith(" where it raises"):
            return is_plain
        if name == "flipped":
            return is_plain and not kinds & {"bool", "NoneType"}
        if name == "first answer again":
            return is_plain and all(sum(one.values()) == 1 for one in called)
        return name == "remembered argument" and len(self.kinds) == 1
