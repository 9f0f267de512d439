"""A small language model opens drawers, without and with a memory of what a verified attempt showed."""

import asyncio
import random
from pathlib import Path
from typing import ClassVar, Literal

import msgspec

from assay.environments.worlds.families import WorldTasks
from assay.environments.worlds.interface import Act, Turn
from assay.environments.worlds.rules import Rules, WorldConfig
from assay.learning.memory import add_to_memory
from assay.rollout import RunConfig, Tally, start_run
from assay.settings import Settings
from assay.store import RunStore

TOOLS = ("hammer", "key", "rope", "lamp", "saw")


class Use(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Use a tool on the drawer. One try is all there is."""

    tool: Literal["hammer", "key", "rope", "lamp", "saw"]


class Now(msgspec.Struct):
    used: str = ""


class Drawers(Rules[WorldConfig, Now]):
    """A drawer with a made-up name, which one of five tools opens."""

    name = "drawers"
    WorldConfig, Now = WorldConfig, Now
    acts: ClassVar[dict[str, type[msgspec.Struct]]] = {"use": Use}

    def generate(self, draw: random.Random) -> None:
        self.label = "".join(draw.choice("bdgklmnprtvz") + draw.choice("aeiou") for _ in range(3))
        self.tool, self.limit, self.now = draw.choice(TOOLS), 1, Now()

    def brief(self) -> str:
        return f"Open the {self.label}."

    def render(self) -> str:
        return f"To open the {self.label}, use the {self.tool}." if self.solved() else f"The {self.label} is shut."

    def do_use(self, given: Use) -> Turn:
        self.now.used = given.tool
        return Turn(self.render(), float(self.solved()), True)

    def constants(self) -> object:
        return [self.label, self.tool]

    def solved(self) -> bool:
        return self.now.used == self.tool

    def oracle(self) -> Act | None:
        return None if self.over else ("use", {"tool": self.tool})

    def progress(self) -> float:
        return float(self.solved())


class DrawersTasks(WorldTasks):
    """Tasks of this world."""

    kind = f"{__file__}:Drawers"
    short = "drawers"


async def attempt(settings: Settings, run: str, agent: str, **options: object) -> str:
    model = "small:smollm2-135m" if agent == "loop" else None
    tasks = (f"family:{__file__}:DrawersTasks,n=10,seed=1",)
    await start_run(RunConfig(tasks=tasks, agent=agent, model=model, agent_options=options, run=run), settings, Tally())
    with RunStore.open(settings.store, run) as store:
        return f"{sum(row.outcome == 'pass' for row in store.attempts())} of 10"


async def main() -> None:
    settings = Settings(Path("cache"), Path(".assay"))
    only_use = {"tool_choice": {"type": "function", "function": {"name": "use"}}}
    print("an expert:", await attempt(settings, "first", "expert"))
    print(add_to_memory(Path("memory.jsonl"), ["first"], settings))
    print("without a memory:", await attempt(settings, "without", "loop", system="", sampling=only_use))
    recalled = {"system": "", "sampling": only_use, "memory": "memory.jsonl", "recall": 1}
    print("with it, as it was seen:", await attempt(settings, "with", "loop", **recalled))
    print("with it, as a sentence:", await attempt(settings, "told", "loop", memory_item="{what}", **recalled))


if __name__ == "__main__":
    asyncio.run(main())
