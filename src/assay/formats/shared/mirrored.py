"""A trajectory of a format that is also written: every item of the source is kept with the step that it became part of.

What importers of two-way formats build on. Nothing of a source is dropped in silence: an item that is no part of any
step is kept with the step before it (of those before the first step, with the first), as `other`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec

from assay.errors import UserError
from assay.formats.interface import Imported, Reading, Unreadable
from assay.formats.shared.building import Building, Origin
from assay.formats.shared.mirror import ITEMS, Fresh, Item, left, made_again, shortened
from assay.formats.shared.reading import LARGEST, digest_file, document
from assay.formats.shared.sniffing import Sniffed
from assay.formats.shared.writing import FileNames, new_file, new_folder, refuse_existing
from assay.records import Observation, Step, Trajectory
from assay.verdicts import IMPORTED, trust_of

__all__ = [
    "MOST",
    "WHOLE",
    "Mirrored",
    "attempt_name",
    "fields_of",
    "is_object",
    "number",
    "one_each",
    "origin_of",
    "own",
    "rewards_of",
    "sibling",
    "sibling_document",
    "text_or_none",
    "whole_number",
    "word",
    "words_of",
    "write_array",
]


MOST = 256
"""Tool calls of one turn. It bounds the time that a hostile file takes."""
WHOLE = 256 << 20
"""Bytes of a document that is one trajectory, and is read as a whole, above which it is refused."""


class Mirrored(Building):
    """One trajectory of a two-way format while it is read."""

    def __init__(self, origin: Origin, reading: Reading, fresh: Fresh) -> None:
        super().__init__(origin, reading)
        self._fresh = fresh
        self._items: dict[int, list[Item]] = {}
        self._early: list[Item] = []
        self._counts: Counter[str] = Counter()
        self._next: dict[str, int] = {}
        """Of each tool call's id, how many of the turns that made such a call were answered or passed over."""

    def step(self, actor: str, message: str | None = None, **named: Any) -> Step:
        """See `Building.step`. Of more calls than any answer has, the first are read; the item is kept whole."""
        calls = named.get("tool_calls", ())
        if len(calls) > MOST:
            problem = f"{len(calls):,} tool calls in one answer: the first {MOST} are read as calls"
            self._reading.unreadable(Unreadable(self._origin.file, f"step {len(self.steps)}", problem))
            named["tool_calls"] = calls[:MOST]
        return super().step(actor, message, **named)

    def full(self, step: Step) -> bool:
        """Whether a turn that grows has grown so much that the next part begins another."""
        return len(step.tool_calls) >= MOST or len(self._items.get(step.index, ())) >= 4 * MOST

    def _answered(self, call_id: str | None) -> Step | None:
        """As `Building` has it, in a time that does not grow with how often an id was used."""
        if call_id is None:
            return super()._answered(None)
        asked = self._asked.get(call_id, [])
        while (at := self._next.get(call_id, 0)) < len(asked):
            self._next[call_id] = at + 1
            step = self.steps[asked[at]]
            if all(seen.call_id != call_id for seen in step.observations):
                return step
        last = self.steps[asked[-1]] if asked else None
        return last if last is not None and len(last.observations) < 2 * MOST else None

    def item(self, value: Any, part: str = "other", step: Step | None = None, place: str = "") -> None:
        """Keeps an item, in the order of the source; `step` is the one that it became part of."""
        made = Item(self._counts[place], part, value, place)
        self._counts[place] += 1
        if step is None and self.steps:
            step = self.steps[-1]
        if step is None:
            self._early.append(made)
            return
        if self._early:
            self._items.setdefault(0, [])[:0] = self._early
            self._early = []
        self._items.setdefault(step.index, []).append(made)

    def answer(self, found: Observation, value: Any, place: str = "", **named: Any) -> Step:
        """Adds a tool's result and keeps the item that said it."""
        step = self.result(found, **named)
        self.item(value, f"result {len(step.observations) - 1}", step, place)
        return step

    def grow(self, step: Step, **named: Any) -> Step:
        """Replaces fields of the newest turn, new tool calls included."""
        made = self.change(self.steps[step.index], **named)
        for call in made.tool_calls[len(step.tool_calls) :]:
            self._asked.setdefault(call.id, []).append(made.index)
            self._last_asked = made.index
        return made

    def amend(self, call_id: str, change: Callable[[Observation], Observation]) -> bool:
        """Changes the last observation that answers a call; False where there is none yet."""
        for index in reversed(self._asked.get(call_id, ())):
            step = self.steps[index]
            for at in range(len(step.observations) - 1, -1, -1):
                if step.observations[at].call_id == call_id:
                    seen = (*step.observations[:at], change(step.observations[at]), *step.observations[at + 1 :])
                    self.change(step, observations=seen)
                    return True
        return False

    def steps_of(self, place: str = "") -> dict[int, int]:
        """Of each item of a list, by its position, the step that it became part of."""
        return {item.at: step for step, items in self._items.items() for item in items if item.place == place}

    def done(self, key: str, **started: Any) -> Imported:
        calls = {call.id: call for call in self.calls}
        for index, step in enumerate(self.steps):
            kept = made_again(self._items.get(index, ()), step, calls.get(step.call or ""), self._fresh)
            extra = {**step.extra, ITEMS: kept} if kept else step.extra
            self.steps[index] = shortened(msgspec.structs.replace(step, extra=extra), self._reading)
        for early in self._early:
            self.add(left(early))
        return super().done(key, **started)


def origin_of(name: str, path: Path, version: str = "") -> Origin:
    """Where a file's trajectories come from."""
    return Origin(name, path.name, digest_file(path), version)


def is_object(seen: Sniffed) -> bool:
    """Whether a file may be one JSON object; on one line it looks like lines of them."""
    return seen.shape in {"object", "lines"}


def sibling(*candidates: Path) -> Path | None:
    """The first of these that is a file of its own, no link to elsewhere."""
    with suppress(OSError, ValueError):
        for path in candidates:
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST:
                return path
    return None


def sibling_document(*candidates: Path) -> Any:
    """The JSON of the first of these files that is there; None where none is, or where it is no JSON."""
    found = sibling(*candidates)
    if found is not None:
        with suppress(UserError, OSError):
            return document(found)
    return None


def text_or_none(value: Any) -> str | None:
    """A text, or None where it is none."""
    return value if isinstance(value, str) else None


def word(value: Any) -> str:
    """A text, or an empty one: for what is looked up, which must not be a list or an object."""
    return value if isinstance(value, str) else ""


def list_of(value: Any) -> list[Any]:
    """A list; an empty one where it is none."""
    return value if isinstance(value, list) else []


def objects_of(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none where it is no list."""
    return [item for item in list_of(value) if isinstance(item, dict)]


def number(value: Any) -> float | None:
    """A number, or None where it is none (a truth value is none)."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def whole_number(value: Any) -> int | None:
    """A count, or None where it is none; no larger than a column holds."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def words_of(trajectory: Trajectory) -> dict[str, Any]:
    """What an importer wrote into `config["imported"]`; empty for what was not imported."""
    words = trajectory.started.config.get(IMPORTED)
    return words if isinstance(words, dict) else {}


def own(trajectory: Trajectory, name: str) -> bool:
    """Whether it was imported from this format."""
    return words_of(trajectory).get("format") == name


def fields_of(trajectory: Trajectory) -> dict[str, Any]:
    """What the source said that no record has a place for."""
    fields = words_of(trajectory).get("fields")
    return fields if isinstance(fields, dict) else {}


def rewards_of(trajectory: Trajectory) -> dict[str, float]:
    """Named rewards: of evidence, else of the outcome verdicts, else their score.

    None of a pass that something speaks against: in a format that has no word for doubt it would be a plain one.
    """
    if trust_of(trajectory).doubt is not None:
        return {}
    for fact in trajectory.evidence:
        if fact.kind == "reward" and isinstance(values := fact.data.get("values"), dict):
            return {str(k): float(v) for k, v in values.items() if number(v) is not None}
    for verdict in trajectory.verdicts:
        if verdict.kind == "outcome" and (verdict.rewards or verdict.score is not None):
            return dict(verdict.rewards) or {"reward": verdict.score or 0.0}
    return {}


def attempt_name(trajectory: Trajectory) -> str:
    """What tells an attempt from another at the same task."""
    return f"{trajectory.attempt}.{trajectory.retry}"


def one_each(
    trajectories: Iterable[Trajectory], target: Path, suffix: str, write: Callable[[Trajectory, Path], None]
) -> None:
    """Writes a format whose files hold one trajectory each: one file, or, for several, a folder of them.

    Raises:
        UserError: `target` exists.
    """
    refuse_existing(target)
    waiting = iter(trajectories)
    several = list(islice(waiting, 2))
    if len(several) == 1 and target.suffix:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(several[0], target)
        return
    folder, names = new_folder(target), FileNames()
    for position, trajectory in enumerate(chain(several, waiting)):
        name = f"{position:05d}-{attempt_name(trajectory)}"
        write(trajectory, folder / names.name(name, suffix))


def write_array(trajectories: Iterable[Trajectory], target: Path, item: Callable[[Trajectory], Any]) -> None:
    """Writes a JSON array, one trajectory at a time.

    Raises:
        UserError: `target` exists.
    """
    with new_file(target) as stream:
        stream.write(b"[")
        for position, trajectory in enumerate(trajectories):
            stream.write((b",\n" if position else b"\n") + msgspec.json.encode(item(trajectory)))
        stream.write(b"\n]\n")
