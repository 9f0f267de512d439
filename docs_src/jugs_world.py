"""A text world, its tasks, a conformance check, and a run of an expert in it."""

import asyncio
import random
from collections import deque
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

from assay.environments.worlds.conformance import check_world
from assay.environments.worlds.families import WorldTasks
from assay.environments.worlds.interface import Act, Turn
from assay.environments.worlds.rules import Rules, WorldConfig
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore


class JugsConfig(WorldConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    largest: int = 9
    """Litres of the larger jug."""


class Fill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fill a jug to its brim."""

    jug: Literal["a", "b"]


class Empty(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pour all of a jug away."""

    jug: Literal["a", "b"]


class Pour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pour from this jug into the other, until one is empty or the other is full."""

    jug: Literal["a", "b"]


class Now(msgspec.Struct):
    litres: list[int]


class Jugs(Rules[JugsConfig, Now]):
    """Two jugs and a well: measure out a number of litres."""

    name = "jugs"
    WorldConfig, Now = JugsConfig, Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"fill": Fill, "empty": Empty, "pour": Pour}

    def generate(self, draw: random.Random) -> None:
        """Everything random comes from `draw`: the same seed makes the same world."""
        self.sizes = sorted(draw.sample(range(2, self.config.largest + 1), 2))
        self.now = Now([0, 0])
        ways = self._ways((0, 0))
        first = min(self.sizes)
        within = sorted({litres for pair in ways for litres in pair} - {0, first, max(self.sizes)})
        self.goal = draw.choice(within or [first]) if self.config.solvable else self.sizes[1] + 1
        self.shortest = min((len(way) for pair, way in ways.items() if self.goal in pair), default=0)
        self.limit = self.config.turns or 2 * self.shortest + 4

    def brief(self) -> str:
        return f"Jug a holds {self.sizes[0]} litres, jug b {self.sizes[1]}. Have {self.goal} litres in one of them."

    def render(self) -> str:
        return f"a: {self.now.litres[0]}, b: {self.now.litres[1]}"

    def constants(self) -> object:
        return [self.sizes, self.goal]

    def solved(self) -> bool:
        return self.goal in self.now.litres

    def extra_facts(self) -> dict[str, int]:
        return {"shortest": self.shortest}

    def do_fill(self, given: Fill) -> Turn:
        return self._become(_after(self.now.litres, self.sizes, "fill", given.jug))

    def do_empty(self, given: Empty) -> Turn:
        return self._become(_after(self.now.litres, self.sizes, "empty", given.jug))

    def do_pour(self, given: Pour) -> Turn:
        return self._become(_after(self.now.litres, self.sizes, "pour", given.jug))

    def _become(self, litres: tuple[int, ...]) -> Turn:
        self.now.litres = list(litres)
        return Turn(self.render(), float(self.solved()), self.solved())

    def oracle(self) -> Act | None:
        """The first act of a shortest way from here."""
        ways = self._ways(tuple(self.now.litres))
        found = [way for pair, way in ways.items() if self.goal in pair and way]
        return None if self.over or not found else min(found, key=len)[0]

    def choices(self) -> list[Act]:
        return [] if self.over else [(act, {"jug": jug}) for act in self.acts for jug in "ab"]

    def _ways(self, start: tuple[int, ...]) -> dict[tuple[int, ...], list[Act]]:
        """A shortest way to every state that can be reached."""
        ways: dict[tuple[int, ...], list[Act]] = {start: []}
        edge = deque([start])
        while edge:
            here = edge.popleft()
            for act in self.acts:
                for jug in "ab":
                    there = _after(list(here), self.sizes, act, jug)
                    if there not in ways:
                        ways[there] = [*ways[here], (act, {"jug": jug})]
                        edge.append(there)
        return ways


def _after(litres: list[int], sizes: list[int], act: str, jug: str) -> tuple[int, ...]:
    one, other = "ab".index(jug), "ba".index(jug)
    after = list(litres)
    poured = min(litres[one], sizes[other] - litres[other]) if act == "pour" else 0
    after[one] = {"fill": sizes[one], "empty": 0}.get(act, litres[one] - poured)
    after[other] += poured
    return tuple(after)


class JugsTasks(WorldTasks):
    """Tasks of this world, for `assay run family:jugs_world.py:JugsTasks,n=20,largest=12`."""

    kind = f"{__file__}:Jugs"
    short = "jugs"


if __name__ == "__main__":
    broken = [found for found in check_world(lambda seed: Jugs({}, seed)) if found.problem]
    print("broken promises:", broken)
    config = RunConfig(tasks=(f"family:{__file__}:JugsTasks,n=3,seed=1",), agent="expert")
    done = asyncio.run(start_run(config, Settings(Path("cache"), Path(".assay")), Tally()))
    with RunStore.open(done.store, done.run) as store:
        for row in store.attempts():
            print(row.task, row.outcome, "in", len(store.trajectory(row.chain).steps), "acts")
