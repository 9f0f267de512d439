"""Keeps the data of foreign items that records do not hold, so that the items can be restored exactly.

An *item* is an element of a source: a line of a session, a message, an event. Each item becomes a part of a step, and a
step's part can be rendered as an item again. The difference between the source's item and the rendered one is stored in
`Step.extra["items"]`, in the order of the source; writing applies it to the rendered item.

Invariant: `patch_json(fresh, rest_of(item, fresh)) == item` for all JSON values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from assay.errors import StoreError
from assay.formats.interface import ExportContext, ImportContext
from assay.formats.shared.json_stream import truncate_text
from assay.records import ModelCall, Noted, Observation, Step, Trajectory, Truncation

ITEMS = "items"
_DROPPED, _WHOLE = "-", "="
ItemRenderer = Callable[[Step, str, ModelCall | None], Any]
"""Renders a step's part as an item, given the step's model call if any."""


class Item(NamedTuple):
    """An item of the source and the part of a step that it became."""

    at: int
    """Its position among the readable items of its list."""
    part: str
    """`message`, `result 0`, ...; `other` for items that no step holds."""
    value: Any
    place: str = ""
    """Its list, where the source has several."""


def diff_json(item: Any, fresh: Any) -> Any:
    """Returns the difference that turns `fresh` into `item`; None where they are equal."""
    if _is_equal(item, fresh):
        return None
    if not isinstance(item, dict) or not isinstance(fresh, dict) or _DROPPED in item or _WHOLE in item:
        return {_WHOLE: item}
    rest: dict[str, Any] = {}
    for key, value in item.items():
        if key not in fresh:
            rest[key] = value
        elif not _is_equal(value, fresh[key]):
            nested = isinstance(value, dict) and isinstance(fresh[key], dict)
            rest[key] = diff_json(value, fresh[key]) if nested else value
    dropped = sorted(key for key in fresh if key not in item)
    return {**rest, _DROPPED: dropped} if dropped else rest


def patch_json(fresh: Any, rest: Any) -> Any:
    """Applies a difference of `diff_json`."""
    if rest is None:
        return fresh
    if _WHOLE in rest:
        return rest[_WHOLE]
    if not isinstance(fresh, dict):
        return rest
    dropped = set(rest.get(_DROPPED, ()))
    found = {key: value for key, value in fresh.items() if key not in dropped}
    for key, value in rest.items():
        if key != _DROPPED:
            nested = isinstance(value, dict) and isinstance(found.get(key), dict)
            found[key] = patch_json(found[key], value) if nested else value
    return found


def _is_equal(one: Any, other: Any) -> bool:
    """Returns whether two values are equal as JSON: 1, 1.0 and true differ."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    return bool(one == other)


def diff_items(items: Iterable[Item], step: Step, call: ModelCall | None, fresh: ItemRenderer) -> list[dict[str, Any]]:
    """Returns the items of a step as its `extra` stores them."""
    entries: list[dict[str, Any]] = []
    for item in items:
        entry: dict[str, Any] = {"at": item.at, "as": item.part}
        if item.place:
            entry["in"] = item.place
        made = None if item.part == "other" else fresh(step, item.part, call)
        rest = diff_json(item.value, made)
        if rest is not None:
            entry["rest"] = rest
        entries.append(entry)
    return entries


def restore_items(
    trajectory: Trajectory,
    fresh: ItemRenderer,
    plan: Callable[[Step], Iterable[str]],
    writing: ExportContext,
    *,
    own: bool,
    list_name: str = "",
) -> Iterator[Any]:
    """Yields the items of one list of the source, in its order.

    Stored items are used if the trajectory came from this format (`own`); else `plan` yields the parts of each step,
    and `fresh` renders them, with truncated texts read whole.
    """
    calls = {call.id: call for call in trajectory.calls}
    found: list[tuple[int, int, Any]] = []
    for number, step in enumerate(trajectory.steps):
        full, call = restore_observations(step, writing), calls.get(step.call or "")
        entries = _stored_items(step, list_name) if own else [(0, part, None) for part in plan(step)]
        for at, part, rest in entries:
            made = None if part == "other" else fresh(full, part, call)
            found.append((at if own else number, len(found), patch_json(made, rest)))
    if own:
        found += [
            (at, len(found) + i, patch_json(None, rest))
            for i, (at, rest) in enumerate(_unattached_items(trajectory, list_name))
        ]
    return (item for _, _, item in sorted(found, key=lambda one: one[:2]))


def _stored_items(step: Step, list_name: str) -> list[tuple[int, str, Any]]:
    entries = step.extra.get(ITEMS)
    return [
        (int(entry["at"]), str(entry["as"]), entry.get("rest"))
        for entry in (entries if isinstance(entries, list) else ())
        if entry.get("in", "") == list_name
    ]


def _unattached_items(trajectory: Trajectory, list_name: str) -> list[tuple[int, Any]]:
    return [
        (int(note.data["at"]), note.data.get("rest"))
        for note in trajectory.notes
        if note.name == "source" and note.data.get("in", "") == list_name
    ]


def source_note(item: Item) -> Noted:
    """Returns a note that stores an item without a step."""
    data: dict[str, Any] = {"at": item.at, "rest": diff_json(item.value, None)}
    return Noted("source", {**data, "in": item.place} if item.place else data)


def truncate_observations(step: Step, reading: ImportContext) -> Step:
    """Truncates a step's observations to the size that a record may hold."""
    if all(len(seen.content) * 4 <= 1 << 16 and len(seen.stderr) * 4 <= 1 << 16 for seen in step.observations):
        return step
    return msgspec.structs.replace(
        step, observations=tuple(_truncate_observation(seen, reading) for seen in step.observations)
    )


def _truncate_observation(observation: Observation, reading: ImportContext) -> Observation:
    content, truncated = truncate_text(observation.content, reading)
    stderr, stderr_truncated = truncate_text(observation.stderr, reading)
    return msgspec.structs.replace(
        observation, content=content, truncated=truncated, stderr=stderr, stderr_truncated=stderr_truncated
    )


def restore_observations(step: Step, writing: ExportContext) -> Step:
    """Restores a step's truncated observations where their texts are stored."""
    if not any(seen.truncated or seen.stderr_truncated for seen in step.observations):
        return step
    return msgspec.structs.replace(
        step, observations=tuple(_restore_observation(seen, writing) for seen in step.observations)
    )


def _restore_observation(observation: Observation, writing: ExportContext) -> Observation:
    content = _restore_text(observation.content, observation.truncated, writing)
    stderr = _restore_text(observation.stderr, observation.stderr_truncated, writing)
    return msgspec.structs.replace(observation, content=content, stderr=stderr, truncated=None, stderr_truncated=None)


def _restore_text(text: str, cut: Truncation | None, writing: ExportContext) -> str:
    if cut is None:
        return text
    try:
        return writing.read_blob(cut.digest).decode("utf-8", "replace")
    except StoreError:
        return text
