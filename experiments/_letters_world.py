"""A local corpus of letters from several towns, and scripted searchers with a navigator.

Of each town's letters one says how many crates its depot holds, and all other letters say something else. The answer is
the sum over the towns, so that every town's count is needed. Reading is limited by a number of letters; answering is
not. Searchers read town by town, in an order of their own, and report counts; they know a list of towns and letters,
and not where anything stands. A navigator keeps the counts and answers. Three ways to work together:

- `alone`: searchers report to the navigator, and hear nothing;
- `shared`: all hear every report, and read no more letters of a town whose count is known;
- `led`: the navigator gives each searcher a town of its own that lacks a count, and another one when it is found.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from assay.agents._calls import instruction_of
from assay.agents.interface import Attempt
from assay.environments.worlds.families import WorldTasks
from assay.environments.worlds.interface import Act, Turn
from assay.environments.worlds.rules import Rules, WorldConfig
from assay.records import TEAM_READ, TEAM_SEND, Observation, ToolCall, canonical_bytes

TOWNS = ("Oslo", "Bergen", "Turku", "Malmo", "Tartu", "Riga", "Gdansk", "Kiel", "Narva", "Visby")
_FACT = re.compile(r"The depot of (\w+) holds (\d+) crates\.")
_BRIEF = re.compile(r"towns: (.+)\. Each has letters 1 to (\d+)\.")
_NOTHING_LEFT = "no letter may be read any more"
_FILLERS = ("The winter was long.", "Send our greetings to all.", "The road to the harbour is closed.", "Rain again.")
Way = Literal["alone", "shared", "led"]


class LettersConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the world."""

    towns: Annotated[int, Meta(ge=1, le=len(TOWNS))] = 6
    letters: Annotated[int, Meta(ge=1, le=99)] = 5
    """Letters of each town."""
    reads: Annotated[int, Meta(ge=1)] = 15
    """Letters that may be read, by all actors together."""


class _Read(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Read a letter."""

    town: Annotated[str, Meta(max_length=20)]
    letter: Annotated[int, Meta(ge=1, le=99)]


class _Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Give the sum of all crates. This ends it."""

    crates: int


class _Now(msgspec.Struct, forbid_unknown_fields=True):
    read: int = 0
    answer: int = -1


class Letters(Rules[LettersConfig, _Now]):
    """One question."""

    name: ClassVar[str] = "letters"
    WorldConfig = LettersConfig
    Now = _Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"read": _Read, "answer": _Answer}

    def generate(self, draw: random.Random) -> None:
        self._towns = draw.sample(TOWNS, self.config.towns)
        self._crates = {town: draw.randint(10, 99) for town in self._towns}
        self._where = {town: draw.randint(1, self.config.letters) for town in self._towns}
        self._filler = {(town, n): draw.choice(_FILLERS) for town in self._towns for n in range(1, 100)}
        self.limit, self.now = self.config.turns or 1_000, _Now()

    def needed_facts(self) -> tuple[str, ...]:
        """Returns the sentences that hold the counts."""
        return tuple(f"The depot of {town} holds {self._crates[town]} crates." for town in self._towns)

    def brief(self) -> str:
        return (
            f"How many crates do the depots of these towns hold together? The towns: {', '.join(self._towns)}. "
            f"Each has letters 1 to {self.config.letters}. {self.config.reads} letters may be read in all."
        )

    def render(self) -> str:
        return f"{self.config.reads - self.now.read} letters may be read"

    def do_read(self, given: _Read) -> Turn:
        if self.now.read >= self.config.reads:
            return Turn(_NOTHING_LEFT, error=True)
        if given.town not in self._crates or given.letter > self.config.letters:
            return Turn("there is no such letter", error=True)
        self.now.read += 1
        is_there = self._where[given.town] == given.letter
        filler = self._filler[given.town, given.letter]
        return Turn(f"The depot of {given.town} holds {self._crates[given.town]} crates." if is_there else filler)

    def do_answer(self, given: _Answer) -> Turn:
        self.now.answer = given.crates
        return Turn("answered", float(self.solved()), True)

    def constants(self) -> object:
        return [sorted(self._crates.items()), sorted(self._where.items())]

    def solved(self) -> bool:
        return self.now.answer == sum(self._crates.values())

    def oracle(self) -> Act | None:
        return None if self.over else ("answer", {"crates": sum(self._crates.values())})

    def progress(self) -> float:
        return float(self.solved())


class LettersTasks(WorldTasks):
    """Questions over letters."""

    kind = f"{__file__}:Letters"
    short = "letters"


class _Actor:
    """Shared by navigator and searchers: the brief, and their calls."""

    def __init__(self, attempt: Attempt) -> None:
        found = _BRIEF.search(instruction_of(attempt.task))
        assert found is not None
        self.attempt, self._number = attempt, 0
        self.towns, self.letters = found[1].split(", "), int(found[2])
        self.counts: dict[str, int] = {}

    async def call(self, name: str, **arguments: Any) -> Observation:
        self._number += 1
        made = ToolCall(f"c{self._number}", name, canonical_bytes(arguments).decode(), arguments)
        (seen,) = await self.attempt.act([made])
        return seen

    async def hear(self) -> list[dict[str, str]]:
        """Returns the messages that came, and learns their counts."""
        messages = msgspec.json.decode((await self.call(TEAM_READ)).content, type=list[dict[str, str]])
        for message in messages:
            self.learn(message["text"])
        return messages

    def learn(self, text: str) -> bool:
        """Returns whether a text holds a count that was not known."""
        new = {town: int(count) for town, count in _FACT.findall(text) if town not in self.counts}
        self.counts |= new
        return bool(new)


class Searcher:
    """Reads letters and reports counts. Options: `way`, and `name` where it is led."""

    name = "searcher"
    needs_model = False

    def __init__(self, *, way: Way = "alone", name: str = "") -> None:
        self._way, self._name = way, name

    async def run(self, attempt: Attempt) -> None:
        actor, draw = _Actor(attempt), random.Random(attempt.seed)
        towns, letters = list(actor.towns), list(range(1, actor.letters + 1))
        draw.shuffle(towns)
        draw.shuffle(letters)
        left = [(town, letter) for town in towns for letter in letters]
        order = ""
        while attempt.ended is None:
            if self._way != "alone":
                for message in await actor.hear():
                    order = _order_to(self._name, message["text"]) or order
            open_ones = [one for one in left if one[0] not in actor.counts]
            if self._way == "led":
                open_ones = [one for one in open_ones if one[0] == order]
                if not open_ones and len(actor.counts) < len(actor.towns):
                    await attempt.act([])
                    continue
            if not open_ones:
                break
            left.remove(open_ones[0])
            seen = await actor.call("read", town=open_ones[0][0], letter=open_ones[0][1])
            if seen.error:
                break
            if actor.learn(seen.content):
                await actor.call(TEAM_SEND, channel="reports", text=seen.content)
        await actor.call(TEAM_SEND, channel="reports", text="I have nothing left to read.")
        attempt.finish("nothing is left to read")


def _order_to(name: str, text: str) -> str | None:
    found = re.search(rf"\b{re.escape(name)}: (\w+)", text)
    return found[1] if found else None


class Navigator:
    """Keeps the counts and answers once it has all, or nothing more will come. Options: `searchers`, `way`."""

    name = "navigator"
    needs_model = False

    def __init__(self, *, searchers: Sequence[str] = (), way: Way = "alone") -> None:
        self._searchers, self._way = tuple(searchers), way

    async def run(self, attempt: Attempt) -> None:
        actor, busy = _Actor(attempt), dict.fromkeys(self._searchers, "")
        working = set(self._searchers)
        while attempt.ended is None and working and len(actor.counts) < len(actor.towns):
            for message in await actor.hear():
                if "nothing left" in message["text"]:
                    working.discard(message["from"])
            if self._way == "led" and len(working) < len(busy):
                break  # no letter may be read any more, and those without an order do not notice
            if self._way == "led":
                await self._lead(actor, busy)
        await actor.call("answer", crates=sum(actor.counts.values()))

    async def _lead(self, actor: _Actor, busy: dict[str, str]) -> None:
        """Gives free searchers the towns that lack a count and that no other one searches."""
        searched = {town for town in busy.values() if town not in actor.counts}
        free = [name for name, town in busy.items() if not town or town in actor.counts]
        towns = [town for town in actor.towns if town not in actor.counts and town not in searched]
        orders = dict(zip(free, towns, strict=False))
        if orders:
            busy |= orders
            text = "; ".join(f"{name}: {town}" for name, town in orders.items())
            await actor.call(TEAM_SEND, channel="orders", text=text)
