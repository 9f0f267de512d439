"""Text adventure with rooms, locked doors, keys and a treasure to bring home; one tool takes whole commands."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta

from .interface import Act, Turn
from .rules import Rules, WorldConfig

_ROOMS = (
    "hall", "kitchen", "cellar", "library", "garden", "attic", "studio", "chapel", "stable", "tower", "gallery", "vault"
)  # fmt: skip
_METALS = ("brass", "iron", "silver", "copper")
_SIDES = {"north": (-1, 0), "south": (1, 0), "west": (0, -1), "east": (0, 1)}
_BACK = {"north": "south", "south": "north", "west": "east", "east": "west"}
_HELP = "You can: go SIDE, take THING, drop THING, unlock SIDE, look, help."
_CARRIED = -1
TREASURE = "crown"


class AdventureConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of `adventure`. `turns` 0 means four times the solution's length plus ten. An unsolvable world needs a
    lock."""

    rooms: Annotated[int, Meta(ge=2, le=12)] = 5
    locks: Annotated[int, Meta(ge=0, le=4)] = 1
    """Maximum number of locked doors; fewer if the rooms leave no place for a key."""
    things: Annotated[int, Meta(ge=0, le=4)] = 1
    """Objects that serve no purpose."""


class _Do(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Do what a short command says, for example: go north; take brass key; unlock east; drop crown; look; help."""

    command: Annotated[str, Meta(max_length=200)]


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    room: int
    things: dict[str, int]
    """Object to the room where it lies; -1 if carried."""
    unlocked: list[int]
    """Opened locks, sorted."""


class _Door(NamedTuple):
    to: int
    lock: int | None


class Adventure(Rules[AdventureConfig, _Now]):
    """Text adventure world. Home is room 0; lock and key numbers agree."""

    name: ClassVar[str] = "adventure"
    WorldConfig = AdventureConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"do": _Do}

    def generate(self, draw: random.Random) -> None:
        config = self.config
        self._names = draw.sample(_ROOMS, config.rooms)
        self._doors, parents = _tree(config.rooms, draw)
        treasure = draw.randrange(1, config.rooms)
        things = {TREASURE: treasure}
        self._locks = 0
        for room in _path_home(treasure, parents)[: config.locks]:
            outside = sorted(set(range(config.rooms)) - _rooms_behind(room, parents))
            side, parent = next((s, d.to) for s, d in self._doors[room].items() if d.to == parents[room])
            self._doors[room][side] = _Door(parent, self._locks)
            self._doors[parent][_BACK[side]] = _Door(room, self._locks)
            things[f"{_METALS[self._locks]} key"] = draw.choice(outside)
            self._locks += 1
        if not config.solvable:
            if not self._locks:
                raise ValueError("an adventure without a locked door has no unsolvable twin: give locks=1 or more")
            del things[f"{_METALS[draw.randrange(self._locks)]} key"]
        things |= {
            name: draw.randrange(config.rooms) for name in ("lantern", "rope", "apple", "flute")[: config.things]
        }
        self._things = tuple(things)  # in the order in which they are listed, whatever order a restored state has
        self.now = _Now(0, things, [])
        self._shortest = self._search()[1]
        self.limit = config.turns or 4 * max(self._shortest, config.rooms) + 10

    def brief(self) -> str:
        return (
            f"Find the {TREASURE}, bring it to the {self._names[0]} and drop it there, in at most {self.limit} turns."
        )

    def render(self) -> str:
        now = self.now
        lying = [thing for thing in self._things if now.things.get(thing) == now.room]
        carried = [thing for thing in self._things if now.things.get(thing) == _CARRIED]
        ways = [
            f"{side}{' (locked)' if door.lock is not None and door.lock not in now.unlocked else ''}"
            for side, door in self._doors[now.room].items()
        ]
        seen = f"You are in the {self._names[now.room]}. Ways: {', '.join(ways)}."
        seen += f" Here: {', '.join(lying)}." if lying else ""
        return seen + (f" You carry: {', '.join(carried)}." if carried else "")

    def do_do(self, given: _Do) -> Turn:
        verb, _, rest = " ".join(given.command.lower().split()).partition(" ")
        rest = rest.removeprefix("the ")
        if verb in _SIDES and not rest:
            verb, rest = "go", verb
        if verb == "look":
            return Turn(self.render())
        if verb == "help":
            return Turn(_HELP)
        doers = {"go": self._go, "take": self._take, "drop": self._drop, "unlock": self._unlock}
        doer = doers.get(verb)
        if doer is None:
            return Turn(f"I do not understand {given.command[:60]!r}. {_HELP}", error=True)
        said = doer(rest)
        if self.solved():
            return Turn(f"{said} You have done it.", 1.0, True)
        return Turn(f"{said} {self.render()}")

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
        self.now.things[thing] = _CARRIED
        return f"You take the {thing}."

    def _drop(self, thing: str) -> str:
        if self.now.things.get(thing) != _CARRIED:
            return f"You have no {thing[:40]}."
        self.now.things[thing] = self.now.room
        return f"You drop the {thing}."

    def _unlock(self, side: str) -> str:
        door = self._doors[self.now.room].get(side.split(" with ")[0])
        if door is None or door.lock is None or door.lock in self.now.unlocked:
            return "There is nothing to unlock."
        if self.now.things.get(f"{_METALS[door.lock]} key") != _CARRIED:
            return f"You need the {_METALS[door.lock]} key."
        self.now.unlocked = sorted([*self.now.unlocked, door.lock])
        return "The door is open."

    def constants(self) -> Any:
        return [self._names, self._doors]

    def check(self, now: _Now) -> None:
        rooms = range(self.config.rooms)
        whole = now.room in rooms and all(room in rooms or room == _CARRIED for room in now.things.values())
        if not whole or TREASURE not in now.things or not set(now.unlocked) <= set(range(self._locks)):
            raise ValueError("room, objects or locks are not those of this adventure")

    def solved(self) -> bool:
        return self.now.things[TREASURE] == 0

    def extra_facts(self) -> dict[str, Any]:
        facts = {"room": self._names[self.now.room], "things": dict(self.now.things)}
        return {**facts, "unlocked": len(self.now.unlocked), "shortest": self._shortest}

    def oracle(self) -> Act | None:
        """Searches over rooms, inventory and open locks."""
        command = None if self.over else self._search()[0]
        return None if command is None else ("do", {"command": command})

    def progress(self) -> float | None:
        """Returns the decrease of the remaining distance relative to the start."""
        if self.solved():
            return 1.0
        left = self._search()[1]
        return max(0.0, 1 - left / self._shortest) if left and self._shortest else None

    def choices(self) -> list[Act]:
        """Returns moves, object commands, unlocking and `look`."""
        if self.over:
            return []
        now = self.now
        commands = [f"go {side}" for side in self._doors[now.room]]
        commands += [f"unlock {side}" for side, door in self._doors[now.room].items() if door.lock is not None]
        commands += [f"take {thing}" for thing, room in now.things.items() if room == now.room]
        commands += [f"drop {thing}" for thing, room in now.things.items() if room == _CARRIED]
        return [("do", {"command": command}) for command in [*commands, "look"]]

    def _search(self) -> tuple[str | None, int]:
        """Returns the first command of a shortest solution and its length; (None, 0) without one. Dropping anything but
        the treasure, and taking what opens nothing, cannot shorten it."""
        now = self.now
        carried = frozenset(thing for thing, room in now.things.items() if room == _CARRIED)
        start = (now.room, carried, frozenset(now.unlocked))
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
    """Returns random room positions in a plane and, for each but the first, the earlier room it is joined to."""
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


def _path_home(room: int, parents: list[int]) -> list[int]:
    way = []
    while room:
        way.append(room)
        room = parents[room]
    return way


def _rooms_behind(room: int, parents: list[int]) -> set[int]:
    found = {room}
    for other in range(room + 1, len(parents)):
        if parents[other] in found:
            found.add(other)
    return found
