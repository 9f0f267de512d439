"""Builds a trajectory of a format that is also written, keeping every item of the source with its step.

No item of a source is dropped: one that is not part of a step is kept with the step before it (before the first step,
with the first), as `other`.
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
from assay.formats.interface import ImportContext, ImportedTrajectory, ReadProblem
from assay.formats.shared.builder import Origin, TrajectoryBuilder
from assay.formats.shared.json_stream import LARGEST, digest_file, load_document
from assay.formats.shared.output_files import FileNames, new_file, new_folder, refuse_existing
from assay.formats.shared.round_trip import ITEMS, Item, ItemRenderer, diff_items, source_note, truncate_observations
from assay.formats.shared.sniffing import SniffResult
from assay.records import Observation, Step, Trajectory
from assay.verdicts import IMPORTED, trust_of

MOST = 256
"""Largest number of tool calls in one turn, which bounds the time that a hostile file takes."""
WHOLE = 256 << 20
"""Largest document that is one trajectory, in bytes, since it is read whole."""


class RoundTripBuilder(TrajectoryBuilder):
    """Builds one trajectory of a two-way format."""

    def __init__(self, origin: Origin, reading: ImportContext, fresh: ItemRenderer) -> None:
        super().__init__(origin, reading)
        self._fresh = fresh
        self._items: dict[int, list[Item]] = {}
        self._early: list[Item] = []
        self._counts: Counter[str] = Counter()
        self._next: dict[str, int] = {}
        """Number of turns that were answered or skipped, by the tool call's id."""

    def add_step(self, actor: str, message: str | None = None, **named: Any) -> Step:
        """Adds a turn with at most `MOST` tool calls; its item is kept whole."""
        calls = named.get("tool_calls", ())
        if len(calls) > MOST:
            problem = f"{len(calls):,} tool calls in one answer: the first {MOST} are read as calls"
            self._reading.report_problem(ReadProblem(self._origin.file, f"step {len(self.steps)}", problem))
            named["tool_calls"] = calls[:MOST]
        return super().add_step(actor, message, **named)

    def is_full(self, step: Step) -> bool:
        """Returns whether a turn is so large that the next part begins another."""
        return len(step.tool_calls) >= MOST or len(self._items.get(step.index, ())) >= 4 * MOST

    def _find_caller(self, call_id: str | None) -> Step | None:
        """Overrides the search, in a time that does not grow with how often an id was used."""
        if call_id is None:
            return super()._find_caller(None)
        callers = self._callers.get(call_id, [])
        while (at := self._next.get(call_id, 0)) < len(callers):
            self._next[call_id] = at + 1
            step = self.steps[callers[at]]
            if all(seen.call_id != call_id for seen in step.observations):
                return step
        last = self.steps[callers[-1]] if callers else None
        return last if last is not None and len(last.observations) < 2 * MOST else None

    def keep_item(self, value: Any, part: str = "other", step: Step | None = None, list_name: str = "") -> None:
        """Keeps an item, in the order of the source; `step` is the one that it became part of."""
        made = Item(self._counts[list_name], part, value, list_name)
        self._counts[list_name] += 1
        if step is None and self.steps:
            step = self.steps[-1]
        if step is None:
            self._early.append(made)
            return
        if self._early:
            self._items.setdefault(0, [])[:0] = self._early
            self._early = []
        self._items.setdefault(step.index, []).append(made)

    def add_answer(self, observation: Observation, value: Any, list_name: str = "", **named: Any) -> Step:
        """Adds a tool's result and keeps its item."""
        step = self.add_result(observation, **named)
        self.keep_item(value, f"result {len(step.observations) - 1}", step, list_name)
        return step

    def extend_step(self, step: Step, **named: Any) -> Step:
        """Replaces fields of the newest turn, new tool calls included."""
        made = self.change_step(self.steps[step.index], **named)
        for call in made.tool_calls[len(step.tool_calls) :]:
            self._callers.setdefault(call.id, []).append(made.index)
            self._last_caller = made.index
        return made

    def amend_result(self, call_id: str, change: Callable[[Observation], Observation]) -> bool:
        """Changes the last observation of a call; returns False without one."""
        for index in reversed(self._callers.get(call_id, ())):
            step = self.steps[index]
            for at in range(len(step.observations) - 1, -1, -1):
                if step.observations[at].call_id == call_id:
                    seen = (*step.observations[:at], change(step.observations[at]), *step.observations[at + 1 :])
                    self.change_step(step, observations=seen)
                    return True
        return False

    def step_by_position(self, list_name: str = "") -> dict[int, int]:
        """Returns the step of each item of a list, by the item's position."""
        return {item.at: step for step, items in self._items.items() for item in items if item.place == list_name}

    def finish(self, key: str, **started: Any) -> ImportedTrajectory:
        calls = {call.id: call for call in self.calls}
        for index, step in enumerate(self.steps):
            kept = diff_items(self._items.get(index, ()), step, calls.get(step.call or ""), self._fresh)
            extra = {**step.extra, ITEMS: kept} if kept else step.extra
            self.steps[index] = truncate_observations(msgspec.structs.replace(step, extra=extra), self._reading)
        for early in self._early:
            self.add(source_note(early))
        return super().finish(key, **started)


def file_origin(name: str, path: Path, version: str = "") -> Origin:
    """Returns the origin of a file's trajectories."""
    return Origin(name, path.name, digest_file(path), version)


def is_object(sniffed: SniffResult) -> bool:
    """Returns whether a file may be one JSON object; on one line it looks like lines of them."""
    return sniffed.shape in {"object", "lines"}


def find_file(*candidates: Path) -> Path | None:
    """Returns the first of these that is a regular file, or None."""
    with suppress(OSError, ValueError):
        for path in candidates:
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= LARGEST:
                return path
    return None


def load_optional_document(*candidates: Path) -> Any:
    """Returns the JSON of the first of these files that exists; None where none does, or it is invalid."""
    found = find_file(*candidates)
    if found is not None:
        with suppress(UserError, OSError):
            return load_document(found)
    return None


def text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def text_or_empty(value: Any) -> str:
    """Returns a text, else an empty one: for lookups, whose key must be hashable."""
    return value if isinstance(value, str) else ""


def list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def objects_in(value: Any) -> list[dict[str, Any]]:
    return [item for item in list_or_empty(value) if isinstance(item, dict)]


def get_path(value: Any, *keys: str) -> Any:
    """Returns a value in nested objects; None where a key is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def value_at(value: Any, place: str) -> Any:
    """Returns the value at a place, keys and positions in arrays joined by dots; None where it is missing or empty."""
    if not place:
        return None
    for key in place.split("."):
        if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def exit_code(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 31 else None


def number(value: Any) -> float | None:
    """Returns a number as a float; None for other values and booleans."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def count_or_none(value: Any) -> int | None:
    """Returns a count that a column can hold; None for other values."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def import_config(trajectory: Trajectory) -> dict[str, Any]:
    """Returns the importer's data in `config["imported"]`; empty where the trajectory was not imported."""
    words = trajectory.started.config.get(IMPORTED)
    return words if isinstance(words, dict) else {}


def is_imported_from(trajectory: Trajectory, name: str) -> bool:
    return import_config(trajectory).get("format") == name


def source_fields(trajectory: Trajectory) -> dict[str, Any]:
    """Returns the source data that no record has a field for."""
    fields = import_config(trajectory).get("fields")
    return fields if isinstance(fields, dict) else {}


def named_rewards(trajectory: Trajectory) -> dict[str, float]:
    """Returns named rewards: of evidence, else of the outcome verdicts, else their score.

    Empty for a doubted pass, which would read as a plain one in a format that cannot mark doubt.
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
    """Returns a name that is unique among the attempts at a task."""
    return f"{trajectory.attempt}.{trajectory.retry}"


def write_one_per_file(
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
    """Writes a JSON array, one trajectory at a time. Raises `UserError` if `target` exists."""
    with new_file(target) as stream:
        stream.write(b"[")
        for position, trajectory in enumerate(trajectories):
            stream.write((b",\n" if position else b"\n") + msgspec.json.encode(item(trajectory)))
        stream.write(b"\n]\n")
