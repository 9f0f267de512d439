"""Explores a text world and remembers where acts led: within an attempt, and across attempts by a memory file.

It reads observations alone. From the acts whose results it knows it walks to the nearest place with an untried
act, or, once a verified pass is known, along the way to where that pass ended. Without a memory it knows what this
attempt has shown.
"""

from __future__ import annotations

import random
from collections import deque
from pathlib import Path
from typing import Annotated, Any

import msgspec

from assay.errors import TaskError
from assay.records import ToolCall

from ._calls import instruction_of
from ._options import read_options
from .interface import Attempt
from .memory import MemoryRecord, Scope, read_memory, select_records
from .search import OffersActs


class _Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    memory: str = ""
    """Memory file, as `assay memory add` writes it; empty for none."""
    scope: Scope = "same-task"
    """Whose memory is used: of attempts at the `same-task` alone, or of `any`."""
    steps: Annotated[int, msgspec.Meta(ge=0)] = 1000
    """Maximum number of acts; the limits of world and run also apply."""


class ExplorerAgent:
    """Explores a text world by what it remembers. Options: `memory`, `scope`, `steps`."""

    name = "explorer"
    needs_model = False

    def __init__(self, **options: Any) -> None:
        self._options = read_options(_Options, options, self.name)
        self._records = read_memory(Path(self._options.memory)) if self._options.memory else ()

    async def run(self, attempt: Attempt) -> None:
        """Raises `TaskError` if the environment lists no acts."""
        if not isinstance(attempt.tools, OffersActs):
            raise TaskError(
                f"agent {self.name!r} acts in text worlds alone, and task {attempt.task.id!r} is in another"
            )
        places = Places()
        selected = select_records(self._records, attempt.task, self._options.scope)
        for record in selected.used:
            places.remember(record)
        if self._options.memory:
            attempt.note(selected.evidence())
        draw, here = random.Random(attempt.seed), places_of(instruction_of(attempt.task))
        for _ in range(self._options.steps):
            acts = {describe_act(call): call for call in attempt.tools.possible_acts()}
            if not acts:
                break
            chosen = places.choose(here, list(acts), draw)
            (seen,) = await attempt.act([acts[chosen]])
            here = places.learn(here, chosen, seen.content)
            if attempt.ended is not None:
                return
        attempt.finish("the acts of the option `steps` are used up, or the world offers none")


def describe_act(call: ToolCall) -> str:
    """Returns a call as a memory item names it."""
    return f"{call.name} {call.arguments}"


def places_of(text: str) -> str:
    """Returns the place that a text shows: its last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


class Places:
    """Graph of places: where acts led, and where verified passes ended."""

    def __init__(self) -> None:
        self._led: dict[str, dict[str, str]] = {}
        self._goals = set[str]()

    def remember(self, record: MemoryRecord) -> None:
        """Adds the items of a record."""
        here = ""
        for item in record.only_acts().items:
            here = self.learn(places_of(item.when), item.act, item.what)
        if record.passed and here:
            self._goals.add(here)

    def learn(self, before: str, act: str, text: str) -> str:
        """Adds the result of an act and returns the place after it. An answer that ends with the place before it, such
        as "blocked ...", left the agent there."""
        after = places_of(text)
        if after.endswith(before):
            after = before
        self._led.setdefault(before, {})[act] = after
        return after

    def choose(self, here: str, acts: list[str], draw: random.Random) -> str:
        """Returns the first act on the way to a goal, else to the nearest untried act."""
        draw.shuffle(acts)
        to_goal = self._first_act(here, acts, lambda place: place in self._goals)
        if to_goal is not None:
            return to_goal
        untried = [act for act in acts if act not in self._led.get(here, {})]
        if untried:
            return untried[0]
        onward = self._first_act(
            here, acts, lambda place: place not in self._goals and any(a not in self._led.get(place, {}) for a in acts)
        )
        return acts[0] if onward is None else onward

    def _first_act(self, here: str, acts: list[str], is_wanted: Any) -> str | None:
        """Returns the first act of a shortest known way from here to another place that is wanted."""
        queue, seen = deque[tuple[str, str | None]]([(here, None)]), {here}
        while queue:
            place, first = queue.popleft()
            if first is not None and is_wanted(place):
                return first
            for act in acts:
                after = self._led.get(place, {}).get(act)
                if after is not None and after not in seen:
                    seen.add(after)
                    queue.append((after, first or act))
        return None
