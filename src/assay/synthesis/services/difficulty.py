"""How hard tasks in services are made; with the defaults they are what they were before these options."""

from __future__ import annotations

from typing import Final, Literal, get_args

import msgspec

Mood = Literal["calm", "hurried", "upset", "mixed"]
Telling = Literal["asked", "insisted", "precise", "mixed"]
MOODS: Final = tuple(mood for mood in get_args(Mood) if mood != "mixed")
TELLINGS: Final = tuple(telling for telling in get_args(Telling) if telling != "mixed")


class Demands(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How hard the tasks are made."""

    days: int = 0
    """Days that pass between the requests: the person asks for waits of whole days, and what is due happens meanwhile.
    In every second task it matters to a later request, if a walk with such an event is found."""
    distractors: int = 0
    """At least so many other records resemble a record that is asked for."""
    reads: int = 0
    """At least so many reads are needed before the arguments of the requests are known."""
    mood: Mood = "calm"
    """Mood of the person: `calm`, `hurried` (tells one fact at a time), `upset`, or `mixed`."""
    patience: int = 12
    """Useless messages after which the person leaves."""
    disclosure: Telling = "asked"
    """When the person tells a fact: when `asked`, when `insisted` (asked twice), when the question is `precise` (it
    names this fact and no other), or `mixed`."""
    wrong: int = 0
    """Facts that the person tells wrongly at first, and corrects."""
    tell: bool = False
    """True if the person must be told a value that the work brings about, such as the amount of a refund."""
    twins: bool = False
    """True if the tasks are pairs that share their requests but for one: in the first it is `ambiguous`, `impossible`
    or `forbidden` (`kind`), in the second it can be done as it is said."""

    files: bool = False
    """True if the last request of each task is about a file of the person, which the agent sends to an application."""

    @property
    def has_person(self) -> bool:
        """Returns whether an option is of the person whom the agent talks to."""
        return self.tell or self.wrong > 0 or (self.mood, self.patience, self.disclosure) != ("calm", 12, "asked")


class Harder(Demands, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How hard the tasks are made, and what is done with the set."""

    distinct: bool = False
    """True if a task that says nearly the same as an earlier one is left out."""
    needs: bool = False
    """True if tasks state the fewest reads and questions, and attempts are measured by what they used beyond them."""
