"""A small text adventure: rooms, locked doors, keys, and a treasure to bring home. One tool takes whole commands.

What can be said is in the answer to `help`; what cannot be understood is answered, as a person would, and not done.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

from .interface import Act, Turn
from .rules import Knobs, Rules

__all__ = ["Adventure", "AdventureKnobs"]

_ROOMS = (
    "hall", "kitchen", "cellar", "library", "garden", "attic", "studio", "chapel", "stable", "tower", "gallery", "vault"
)  # fmt: skip
_METALS = ("brass", "iron", "silver", "copper")
_SIDES = {"north": (-1, 0), "south": (1, 0), "west": (0, -1), "east": (0, 1)}
_BACK = {"north": "south", "south": "north", "west": "east", "east": "west"}
_HELP = "You can: go SIDE, take THING, drop THING, unlock SIDE, look, help."
_HELD = -1
TREASURE = "crown"


class AdventureKnobs(Knobs, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Knobs of `adventure`. `turns` 0: four times what is needed, and ten. An unsolvable one needs a locked door."""

    rooms: Annotated[int, Meta(ge=2, le=12)] = 5
    locks: Annotated[int, Meta(ge=0, le=4)] = 1
    """Locked doors, at most: fewer where the rooms leave no place for a key."""
    things: Annotated[int, Meta(ge=0, le=4)] = 1
    """Things that are of no use."""


class _Do(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Do what a short command says, for example: go north; take brass key; unlock east; drop crown; look; help."""

    command: Annotated[str, Meta(max_length=200)]


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    room: int
    things: dict[str, int]
    """Thing to the room where it lies; -1 where it is carried."""
    unlocked: list[int]
    """Locks that were opened, sorted."""


class _Door(NamedTuple):
    to: int
    lock: int | None


class Adventure(Rules[AdventureKnobs, _Now]):
    """See the module. The home is room 0; locks are numbered as their keys are."""

    name: ClassVar[str] = "adventure"
    Knobs = AdventureKnobs
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"do": _Do}

    def lay_out(self, draw: random.Random) -> None:
        """See `Rules.lay_out`."""
        knobs = self.knobs
        self._names = draw.sample(_ROOMS, knobs.rooms)
        self._doors, parents = _tree(knobs.rooms, draw)
        treasure = draw.randrange(1, knobs.rooms)
        things = {TREASURE: treasure}
        self._locks = 0
        for room in _way_home(treasure, parents)[: knobs.locks]:
            outside = sorted(set(range(knobs.rooms)) - _beyond(room, parents))
            side, parent = next((s, d.to) for s, d in self._doors[room].items() if d.to == parents[room])
            self._doors[room][side] = _Door(parent, self._locks)
            self._doors[parent][_BACK[side]] = _Door(room, self._locks)
            things[f"{_METALS[self._locks]} key"] = draw.choice(outside)
            self._locks += 1
        if not knobs.solvable:
            if not self._locks:
                message = "an adventure without a locked door has no unsolvable twin: give locks=1 or more"
                raise ValueError(message)
            del things[f"{_METALS[draw.randrange(self._locks)]} key"]
        things |= {name: draw.randrange(knobs.rooms) for name in ("lantern", "rope", "apple", "flute")[: knobs.things]}
        self._things = tuple(things)  # in the order in which they are listed, whatever order a restored state has
        self.now = _Now(0, things, [])
        self._shortest = self._search()[1]
        self.limit = knobs.turns or 4 * max(self._shortest, knobs.rooms) + 10

    def brief(self) -> str:
        """See `Rules.brief`."""
        return (
            f"Find the {TREASURE}, bring it to the {self._names[0]} and drop it there, in at most {self.limit} turns."
        )

    def looks(self) -> str:
        """See `Rules.looks`."""
        now = self.now
        lying = [thing for thing in self._things if now.things.get(thing) == now.room]
        held = [thing for thing in self._things if now.things.get(thing) == _HELD]
        ways = [
            f"{side}{' (locked)' if door.lock is not None and door.lock not in now.unlocked else ''}"
            for side, door in self._doors[now.room].items()
        ]
        seen = f"You are in the {self._names[now.room]}. Ways: {', '.join(ways)}."
        seen += f" Here: {', '.join(lying)}." if lying else ""
        return seen + (f" You carry: {', '.join(held)}." if held else "")

    def do_do(self, given: _Do) -> Turn:
        """Understands the command and does it."""
        verb, _, rest = " ".join(given.command.lower().split()).partition(" ")
        rest = rest.removeprefix("the ")
        if verb in _SIDES and not rest:
            verb, rest = "go", verb
        if verb == "look":
            return Turn(self.looks())
        if verb == "help":
            return Turn(_HELP)
        doers = {"go": self._go, "take": self._take, "drop": self._drop, "unlock": self._unlock}
        doer = doers.get(verb)
        if doer is None:
            return Turn(f"I do not understand {given.command[:60]!r}. {_HELP}", error=True)
        said = doer(rest)
        if self.solved():
            return Turn(f"{said} You have done it.", 1.0, True)
        return Turn(f"{said} {self.looks()}")

    def _go(self, side: str) -> str:
        door = self._doors[self.now.room].get(side)
        if door is None:
            return "There is no way there."
        if door.lock is not None and door.lock not in self.now.unlocked:
            return f"The door is locked; it has {_METALS[door.lock]} fittings."
        self.now.room = door.to
        return f"You go {side}."

    def _take(self, thing: str) -> str:
        if self.now.things.get(thing) != self.now.room:
            return f"There is no {thing[:40]} here."
        self.now.things[thing] = _HELD
        return f"You take the {thing}."

    def _drop(self, thing: str) -> str:
        if self.now.things.get(thing) != _HELD:
            return f"You have no {thing[:40]}."
        self.now.things[thing] = self.now.room
        return f"You drop the {thing}."

    def _unlock(self, side: str) -> str:
        door = self._doors[self.now.room].get(side.split(" with ")[0])
        if door is None or door.lock is None or door.lock in self.now.unlocked:
            return "There is nothing to unlock."
        if self.now.things.get(f"{_METALS[door.lock]} key") != _HELD:
            return f"You need the {_METALS[door.lock]} key."
        self.now.unlocked = sorted([*self.now.unlocked, door.lock])
        return "The door is open."

    def fixed(self) -> Any:
        """See `Rules.fixed`."""
        return [self._names, self._doors]

    def check(self, now: _Now) -> None:
        """See `Rules.check`."""
        rooms = range(self.knobs.rooms)
        whole = now.room in rooms and all(room in rooms or room == _HELD for room in now.things.values())
        if not whole or TREASURE not in now.things or not set(now.unlocked) <= set(range(self._locks)):
            message = "room, things or locks are none of this adventure"
            raise ValueError(message)

    def solved(self) -> bool:
        """See `Rules.solved`."""
        return self.now.things[TREASURE] == 0

    def told(self) -> dict[str, Any]:
        """See `Rules.told`."""
        facts = {"room": self._names[self.now.room], "things": dict(self.now.things)}
        return {**facts, "unlocked": len(self.now.unlocked), "shortest": self._shortest}

    def oracle(self) -> Act | None:
        """See `TextWorld.oracle`: a search over rooms, what is carried and what is open."""
        command = None if self.over else self._search()[0]
        return None if command is None else ("do", {"command": command})

    def progress(self) -> float | None:
        """See `TextWorld.progress`: how much nearer the end is than it was at first."""
        if self.solved():
            return 1.0
        left = self._search()[1]
        return max(0.0, 1 - left / self._shortest) if left and self._shortest else None

    def choices(self) -> list[Act]:
        """See `Gives.choices`: ways, things, locks, and a look around."""
        if self.over:
            return []
        now = self.now
        commands = [f"go {side}" for side in self._doors[now.room]]
        commands += [f"unlock {side}" for side, door in self._doors[now.room].items() if door.lock is not None]
        commands += [f"take {thing}" for thing, room in now.things.items() if room == now.room]
        commands += [f"drop {thing}" for thing, room in now.things.items() if room == _HELD]
        return [("do", {"command": command}) for command in [*commands, "look"]]

    def _search(self) -> tuple[str | None, int]:
        """The first command of a shortest solution, and how many there are; None and 0 where there is none. To drop
        anything but the treasure at home is of no use, and neither is to take what opens nothing."""
        now = self.now
        held = frozenset(thing for thing, room in now.things.items() if room == _HELD)
        start = (now.room, held, frozenset(now.unlocked))
        edge: list[tuple[tuple[int, frozenset[str], frozenset[int]], str | None]] = [(start, None)]
        known, length = {start}, 0
        while edge:
            length += 1
            further: list[tuple[tuple[int, frozenset[str], frozenset[int]], str | None]] = []
            for (room, having, opened), first in edge:
                if room == 0 and TREASURE in having:
                    return first or f"drop {TREASURE}", length
                for command, to in self._steps(room, having, opened):
                    if to not in known:
                        known.add(to)
                        further.append((to, first or command))
            edge = further
        return None, 0

    def _steps(
        self, room: int, having: frozenset[str], opened: frozenset[int]
    ) -> Iterator[tuple[str, tuple[int, frozenset[str], frozenset[int]]]]:
        for thing, lies in self.now.things.items():
            if lies == room and thing not in having and (thing == TREASURE or thing.endswith(" key")):
                yield f"take {thing}", (room, having | {thing}, opened)
        for side, door in self._doors[room].items():
            if door.lock is None or door.lock in opened:
                yield f"go {side}", (door.to, having, opened)
            elif f"{_METALS[door.lock]} key" in having:
                yield f"unlock {side}", (room, having, opened | {door.lock})


def _tree(rooms: int, draw: random.Random) -> tuple[list[dict[str, _Door]], list[int]]:
    """Rooms on a plane, each but the first joined to one before it; and to which."""
    at, doors, parents = [(0, 0)], [dict[str, _Door]()], [0]
    while len(at) < rooms:
        parent, side = draw.randrange(len(at)), draw.choice(list(_SIDES))
        place = (at[parent][0] + _SIDES[side][0], at[parent][1] + _SIDES[side][1])
        if place in at:
            continue
        doors[parent][side] = _Door(len(at), None)
        doors.append({_BACK[side]: _Door(parent, None)})
        at.append(place)
        parents.append(parent)
    return doors, parents


def _way_home(room: int, parents: list[int]) -> list[int]:
    """The rooms from this one to the first, which is left out."""
    way = []
    while room:
        way.append(room)
        room = parents[room]
    return way


def _beyond(room: int, parents: list[int]) -> set[int]:
    """The room, and those that are reached through it alone."""
    found = {room}
    for other in range(room + 1, len(parents)):
        if parents[other] in found:
            found.add(other)
    return found
