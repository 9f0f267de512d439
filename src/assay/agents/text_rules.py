"""State of a text adventure as its text shows it, and weights of acts that rules of a skill give.

A `TextView` is parsed from one observation; a `TextMemory` keeps what an agent can remember over an attempt: where the
goal belongs, which exits it has used, and where it came from. `possible_acts` lists the commands that the text offers,
each with its *pattern*: the command with its object replaced by the object's role ("take the goal", "go back with the
goal"). Rules are lines of Markdown that name a pattern and a factor. No world object is read here.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_VIEW = re.compile(
    r"You are in the (?P<room>[a-z ]{1,40})\. Ways: (?P<ways>[a-z, ()]{1,200})\."
    r"(?: Here: (?P<here>[a-z, ]{1,400})\.)?(?: You carry: (?P<carried>[a-z, ]{1,400})\.)?"
)
_BRIEF = re.compile(r"Find the (?P<goal>[a-z ]{1,40}), bring it to the (?P<home>[a-z ]{1,40}) and drop it there")
_OPPOSITE = {"north": "south", "south": "north", "west": "east", "east": "west"}
_RULE = re.compile(
    r"- (?P<pattern>[a-z][a-z ]{1,60}): (?P<factor>[0-9]{1,6}(?:\.[0-9]{1,4})?) times as likely as a random act\b"
)
LEAST_FACTOR, MOST_FACTOR = 0.001, 1000.0
"""Bounds of a rule's factor; a text that says otherwise is read as the nearer bound."""


class TextView(NamedTuple):
    """One observation: the room, its exits, and what lies and is carried."""

    room: str
    ways: tuple[tuple[str, bool], ...]
    """Side and whether the text calls it locked."""
    here: tuple[str, ...]
    carried: tuple[str, ...]


class PossibleAct(NamedTuple):
    """A command that the text offers."""

    command: str
    pattern: str


def parse_view(text: str) -> TextView | None:
    """Parses the last room description of an observation; None if it holds none."""
    found = None
    for found in _VIEW.finditer(text):  # noqa: B007
        pass
    if found is None:
        return None
    ways = tuple(_parse_way(way) for way in found["ways"].split(", "))
    return TextView(found["room"], ways, _names(found["here"]), _names(found["carried"]))


def _parse_way(way: str) -> tuple[str, bool]:
    side, _, mark = way.partition(" ")
    return side, mark == "(locked)"


def _names(listed: str | None) -> tuple[str, ...]:
    return tuple(listed.split(", ")) if listed else ()


class TextMemory:
    """Memory of an attempt, built from text alone.

    Args:
        brief: The task's instruction; it names the goal and where it belongs.

    Raises:
        ValueError: The instruction names no goal.
    """

    def __init__(self, brief: str) -> None:
        found = _BRIEF.search(brief)
        if found is None:
            raise ValueError("the instruction does not say what to bring where")
        self.goal, self.home = found["goal"], found["home"]
        self.view: TextView | None = None
        self._used_exits: set[tuple[str, str]] = set()
        self._way_back: str | None = None
        self.observe("", brief)

    def observe(self, command: str, text: str) -> None:
        """Takes in the answer to a command; text without a room description changes nothing."""
        view = parse_view(text)
        if view is None:
            return
        verb, _, side = command.partition(" ")
        if self.view is not None and verb == "go" and side in _OPPOSITE and view.room != self.view.room:
            self._used_exits |= {(self.view.room, side), (view.room, _OPPOSITE[side])}
            self._way_back = _OPPOSITE[side]
        self.view = view

    def possible_acts(self) -> list[PossibleAct]:
        """Returns the commands that the present text offers, in its order; empty before the first description."""
        view = self.view
        if view is None:
            return []
        holding = "with the goal" if self.goal in view.carried else "without the goal"
        acts = []
        for side, is_locked in view.ways:
            acts.append(
                PossibleAct(f"go {side}", f"go {self._exit_role(view.room, side, is_locked=is_locked)} {holding}")
            )
            if is_locked:
                has_key = any(thing.endswith(" key") for thing in view.carried)
                acts.append(PossibleAct(f"unlock {side}", f"unlock {'with' if has_key else 'without'} a key"))
        where = "at home" if view.room == self.home else "elsewhere"
        acts += [PossibleAct(f"take {thing}", f"take {self._thing_role(thing, where)}") for thing in view.here]
        acts += [PossibleAct(f"drop {thing}", f"drop {self._thing_role(thing, where)}") for thing in view.carried]
        return [*acts, PossibleAct("look", "look")]

    def _exit_role(self, room: str, side: str, *, is_locked: bool) -> str:
        if is_locked:
            return "through a locked door"
        if side == self._way_back:
            return "back"
        return "through a used exit" if (room, side) in self._used_exits else "through a new exit"

    def _thing_role(self, thing: str, where: str) -> str:
        if thing == self.goal:
            return f"the goal {where}"
        return "a key" if thing.endswith(" key") else "another thing"


def parse_rules(text: str) -> dict[str, float]:
    """Returns the factor of each pattern that a skill's text gives a rule for; other lines are ignored.

    The last rule of a pattern counts; factors are limited to [`LEAST_FACTOR`, `MOST_FACTOR`].
    """
    found = {}
    for line in text.splitlines():
        rule = _RULE.match(line)
        if rule is not None:
            found[rule["pattern"]] = min(MOST_FACTOR, max(LEAST_FACTOR, float(rule["factor"])))
    return found


def render_rule(pattern: str, factor: float) -> str:
    """Returns a rule as a line that `parse_rules` reads. Raises `ValueError` for what it could not read."""
    line = f"- {pattern}: {factor:.4f} times as likely as a random act"
    if not math.isfinite(factor) or _RULE.fullmatch(line) is None:
        raise ValueError(f"{pattern!r} with the factor {factor} is not a rule")
    return line


def choose_act(acts: Sequence[PossibleAct], rules: Mapping[str, float], draw: random.Random) -> PossibleAct:
    """Draws an act by the factors of its pattern; a pattern without a rule has the factor 1."""
    return draw.choices(acts, [rules.get(act.pattern, 1.0) for act in acts])[0]
