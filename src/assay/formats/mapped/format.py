"""Reads a file of an unknown format by a mapping (`assay import --map`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from assay.formats.interface import ImportContext, ImportedTrajectory, Provenance
from assay.formats.mapped.mapping import Mapping
from assay.formats.shared.base import ReadOnlyFormat, skip_unreadable
from assay.formats.shared.builder import Origin, TrajectoryBuilder, tool_call
from assay.formats.shared.content_parts import read_parts
from assay.formats.shared.json_stream import WarnFunction, json_items, parse_time, warn_in
from assay.formats.shared.messages import KNOWN_ROLES, actor_of
from assay.formats.shared.round_trip_builder import file_origin, text_or_none, value_at
from assay.formats.shared.sniffing import read_rows, sniff
from assay.records import ToolCall, canonical_bytes


class MappedFormat(ReadOnlyFormat):
    """A format that a mapping defines."""

    name: ClassVar[str] = "mapped"
    title: ClassVar[str] = "Files read by a mapping"
    provenance: ClassVar[Provenance] = "specification"
    why_read_only: ClassVar[str] = "a mapping only reads"

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping

    def recognises(self, path: Path) -> bool:
        return sniff(path).shape in ("object", "array", "lines")

    def read(self, path: Path, reading: ImportContext) -> Iterator[ImportedTrajectory]:
        origin, bad = file_origin(self.name, path), warn_in(reading, path.name)
        rows = _rows(path, self._mapping.rows, bad)
        if not self._mapping.turns:
            yield _read_run({}, [turn for _, turn in rows], "run", self._mapping, origin, reading)
            return
        for where, row in rows:
            turns = value_at(row, self._mapping.turns)
            if not isinstance(turns, list):
                bad(where, f"no array of turns at {self._mapping.turns!r}")
                continue
            with skip_unreadable(bad, where):
                yield _read_run(row, turns, where, self._mapping, origin, reading)


def _rows(path: Path, place: str, bad: WarnFunction) -> Iterator[tuple[str, Any]]:
    """Yields the runs of a file with their places."""
    if place and sniff(path).shape == "object":
        found = json_items(path, tuple(place.split(".")), bad)
        yield from ((f"{place}[{position}]", row) for position, row in found)
        return
    for where, value in read_rows(path, bad):
        inside = value_at(value, place)
        if not place:
            yield where, value
        elif isinstance(inside, list):
            yield from ((f"{where}.{place}[{position}]", row) for position, row in enumerate(inside))
        else:
            bad(where, f"no array of runs at {place!r}")


def _read_run(
    row: Any, turns: list[Any], where: str, mapping: Mapping, origin: Origin, reading: ImportContext
) -> ImportedTrajectory:
    builder, bad = TrajectoryBuilder(origin, reading), warn_in(reading, origin.file)
    for position, turn in enumerate(turns):
        at = f"{where}.{mapping.turns}[{position}]"
        if isinstance(turn, dict):
            _read_turn(builder, turn, mapping, bad, at)
        else:
            bad(at, f"expected a turn, found {type(turn).__name__}")
    first = mapping.turns.partition(".")[0]
    builder.fields = {key: value for key, value in row.items() if key != first} if isinstance(row, dict) else {}
    builder.place = where
    _read_reward(builder, value_at(row, mapping.reward))
    started: dict[str, Any] = {"task": _name_at(row, mapping.task), "model": _name_at(row, mapping.model)}
    return builder.finish(where, agent=_name_at(row, mapping.agent) or "unknown", **started)


def _read_turn(builder: TrajectoryBuilder, turn: dict[str, Any], mapping: Mapping, bad: WarnFunction, at: str) -> None:
    said = value_at(turn, mapping.role)
    role = mapping.roles.get(str(said), str(said))
    if role not in KNOWN_ROLES:
        builder.remark(at, f"the role {role[:50]!r} is not in the mapping: read as a message of the environment")
    parts = read_parts(value_at(turn, mapping.text))
    text = parts.text if parts.text is not None or not parts.unknown else _text(value_at(turn, mapping.text))
    calls = (*_calls(value_at(turn, mapping.calls), mapping), *parts.calls)
    result = value_at(turn, mapping.result)
    if text is None and not calls and result is None and not parts.results:
        bad(at, f"the turn has no text at {mapping.text!r}, no call and no result")
        return
    for seen in parts.results:
        builder.add_result(seen)
    if role == "tool":
        builder.add_result(builder.make_observation(text or "", text_or_none(value_at(turn, mapping.answers))))
        return
    if text is None and not calls and result is None:
        return
    builder.add_step(
        actor_of(role),
        text,
        reasoning=text_or_none(value_at(turn, mapping.reasoning)) or parts.reasoning,
        tool_calls=calls,
        started=parse_time(value_at(turn, mapping.time)),
        extra={"role": role} if actor_of(role) == "environment" else {},
    )
    if result is not None:
        builder.add_result(builder.make_observation(_text(result)))


def _calls(found: Any, mapping: Mapping) -> tuple[ToolCall, ...]:
    made = []
    for position, call in enumerate(found if isinstance(found, list) else [found] if found is not None else []):
        name = call if isinstance(call, str) else _name_at(call, mapping.call_name)
        id_ = _name_at(call, mapping.call_id) or f"call-{position}"
        made.append(tool_call(id_, name or "", value_at(call, mapping.call_arguments)))
    return tuple(made)


def _read_reward(builder: TrajectoryBuilder, found: Any) -> None:
    reward = float(found) if isinstance(found, bool) else builder.read_reward(found)
    if reward is None:
        return
    evidence = builder.add_evidence("reward", {"values": {"reward": reward}})
    builder.add_verdict(
        "pass" if reward >= 1 else "fail", reward, "as the file has it", (evidence,), {"reward": reward}
    )


def _name_at(value: Any, place: str) -> str | None:
    found = value_at(value, place)
    return found if isinstance(found, str) else None if found is None else canonical_bytes(found).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else canonical_bytes(value).decode()
