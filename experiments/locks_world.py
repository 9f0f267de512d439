"""A world of one question for a very small model: which of five tools opens a thing with a made-up name?

Nothing in the world tells, so that an attempt can only know from a memory, or guess (chance .20). With `notes`, the
answer is in one of several notes to be read first. The option `share` of the tasks replaces the right tool in a
share of them, which keep their ids: what was remembered of these is stale.
"""

from __future__ import annotations

import random
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from assay.environments.worlds.families import WorldTasks
from assay.environments.worlds.interface import Act, Turn
from assay.environments.worlds.rules import Rules, WorldConfig
from assay.records import Task

TOOLS = ("hammer", "key", "rope", "lamp", "saw")
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


class LocksConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the world."""

    notes: Annotated[int, Meta(ge=0, le=40)] = 0
    """Notes that can be read, one fact each, the right one among them; 0: there is nothing to read."""
    filler: Annotated[int, Meta(ge=0, le=5_000)] = 0
    """Characters of other text in a note, the fact at a random place in it."""
    changed: bool = False
    """True if the right tool is another one than without this option."""


class _Use(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Use a tool on the thing. One try is all there is."""

    tool: Literal["hammer", "key", "rope", "lamp", "saw"]


class _Read(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Read the next note."""


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    read: int = 0
    used: str = ""


class Locks(Rules[LocksConfig, _Now]):
    """One thing that one tool opens."""

    name: ClassVar[str] = "locks"
    WorldConfig = LocksConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"use": _Use, "read": _Read}

    def generate(self, draw: random.Random) -> None:
        count = max(1, self.config.notes)
        names = list[str]()
        while len(names) < count:
            name = "".join(draw.choice(_CONSONANTS) + draw.choice(_VOWELS) for _ in range(3))
            names += [name] if name not in names else []
        tools = [draw.choice(TOOLS) for _ in names]
        self._at = draw.randrange(count)
        self._name, self._tool = names[self._at], tools[self._at]
        fillers = list[str]()
        for _ in range(count):
            before = draw.randrange(self.config.filler) if self.config.filler else 0
            fillers += [_filler(draw, before), _filler(draw, self.config.filler - before)]
        if self.config.changed:
            self._tool = tools[self._at] = draw.choice([tool for tool in TOOLS if tool != self._tool])
        self._notes = [
            f"{fillers[2 * i]}{fact(name, tool)}{fillers[2 * i + 1]}"
            for i, (name, tool) in enumerate(zip(names, tools, strict=True))
        ][: self.config.notes]
        self.limit = self.config.turns or 1 + len(self._notes)
        self.now = _Now()

    def offered(self) -> dict[str, type[msgspec.Struct]]:
        return self.acts if self.config.notes else {"use": _Use}

    def brief(self) -> str:
        return f"Open the {self._name}."

    def render(self) -> str:
        return f"The {self._name} is {'open' if self.solved() else 'shut'}."

    def do_use(self, given: _Use) -> Turn:
        self.now.used = given.tool
        if self.solved():
            return Turn(fact(self._name, self._tool), 1.0, True)
        return Turn(f"The {given.tool} does not open the {self._name}.", 0.0, True)

    def do_read(self, _: _Read) -> Turn:
        if self.now.read >= len(self._notes):
            return Turn("There are no more notes.")
        self.now.read += 1
        return Turn(self._notes[self.now.read - 1])

    def constants(self) -> Any:
        return [self._name, self._tool, self._notes]

    def solved(self) -> bool:
        return self.now.used == self._tool

    def extra_facts(self) -> dict[str, Any]:
        return {"used": self.now.used, "needed": self._at}

    def oracle(self) -> Act | None:
        if self.over:
            return None
        return ("read", {}) if self.now.read < len(self._notes) else ("use", {"tool": self._tool})

    def progress(self) -> float | None:
        return float(self.solved())

    def choices(self) -> list[Act]:
        return [] if self.over else [("use", {"tool": tool}) for tool in TOOLS]


def fact(name: str, tool: str) -> str:
    """Returns the sentence that tells which tool opens a thing."""
    return f"To open the {name}, use the {tool}."


def _filler(draw: random.Random, characters: int) -> str:
    words = list[str]()
    while sum(map(len, words)) < characters:
        words.append("".join(draw.choice(_CONSONANTS) + draw.choice(_VOWELS) for _ in range(2)) + " ")
    return "".join(words)


class LocksTasks(WorldTasks):
    """Tasks of this world: `family:experiments/locks_world.py:LocksTasks,n=40`."""

    kind = f"{__file__}:Locks"
    short = "locks"

    def __init__(self, *, share: float = 0.0, **options: Any) -> None:
        super().__init__(**options)
        self._share, self._options = share, options

    def tasks(self, n: int, seed: int) -> tuple[Task, ...]:
        """Returns the tasks; a changed one has the id of the one that it was."""
        found = super().tasks(n, seed)
        if not self._share:
            return found
        changed = LocksTasks(**self._options, changed=True).tasks(n, seed)
        return tuple(
            msgspec.structs.replace(other, id=one.id) if is_changed(one, self._share) else one
            for one, other in zip(found, changed, strict=True)
        )


def is_changed(task: Task, share: float) -> bool:
    """Returns whether a task is in the share that is changed; a digest of its id decides."""
    return random.Random(f"changed/{task.id}").random() < share
