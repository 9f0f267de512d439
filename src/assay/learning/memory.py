"""Writes memory files from verified attempts.

An attempt is remembered once, by the head of its chain, after the chain verified. Doubted passes, unjudged and broken
attempts are left out: what they say cannot be trusted; so are semi-online replays, whose pages need not follow from the
acts before them. Of a passing attempt, the steps of its judged way are
`success`; all other steps of an attempt are `place`. Moves between pages of a site are `page`, beside these, with the
digest of the state that each led to; errors of a passing attempt are `recovery`, with the call that worked after them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec.structs import replace

from assay.agents.explorer import describe_act
from assay.agents.memory import MemoryItem, MemoryRecord, read_memory
from assay.agents.page_memory import PageReader, page_item
from assay.agents.recoveries import find_recoveries
from assay.analysis.judged_path import judged_path
from assay.errors import AssayError
from assay.learning.curation.lessons import instruction_for
from assay.learning.reading import RunReader, verified_outcome
from assay.learning.rows_config import RowsConfig
from assay.records import Trajectory
from assay.settings import Settings
from assay.store import RunStore
from assay.store.chained_file import ChainedFile

MOST_TEXT = 4_000
"""Characters of an observation that an item keeps, its end: where the present state is shown."""


class MemoryChange(NamedTuple):
    """Numbers of an addition to a memory."""

    added: int
    passed: int
    """Of the added attempts."""
    items: int
    known: int
    """Attempts that were in the memory already."""
    left_out: int
    """Attempts that are doubted, unjudged or broken, or were made on recorded pages."""


def add_to_memory(file: Path, runs: Sequence[str], settings: Settings) -> MemoryChange:
    """Adds the verified attempts of runs to a memory file.

    Records that are in the file are taken as they are; `memory_problems` makes them again from their attempts.

    Raises:
        UserError: A run is unknown.
        StoreError: A run is not what was recorded, or the file is damaged or cannot be written.
    """
    memory = ChainedFile(file, MemoryRecord)
    added = passed = items = known = left_out = 0
    with memory.locked() as append:
        records = memory.read()
        heads, previous = {record.head for record in records}, records[-1].digest if records else ""
        for run in runs:
            with RunReader.open(settings, run, RowsConfig()) as reader:
                for trajectory in reader.trajectories():
                    outcome = verified_outcome(trajectory)
                    if outcome is None:
                        left_out += 1
                        continue
                    if trajectory.head in heads:
                        known += 1
                        continue
                    record = remember(reader, trajectory, passed=outcome == "pass", previous=previous)
                    append(record)
                    heads.add(record.head)
                    previous = record.digest
                    added, passed, items = added + 1, passed + record.passed, items + len(record.items)
    return MemoryChange(added, passed, items, known, left_out)


def memory_problems(file: Path, settings: Settings) -> tuple[int, list[str]]:
    """Returns the number of records, and what is wrong with them: each is made again from the attempt that it names.

    Raises:
        UserError: The file cannot be read, or its chain does not hold.
    """
    records, problems = read_memory(file), list[str]()
    by_run: dict[str, dict[str, list[MemoryRecord]]] = {}
    for record in records:
        by_run.setdefault(record.run, {}).setdefault(record.attempt, []).append(record)
    for run, wanted in by_run.items():
        try:
            with RunReader.open(settings, run, RowsConfig()) as reader, RunStore.open(settings.store, run) as store:
                for trajectory in reader.trajectories():
                    heads = {trajectory.head, *(link.digest for link in store.links(trajectory.chain))}
                    for record in [one for one in wanted.get(trajectory.attempt, ()) if one.head in heads]:
                        wanted[trajectory.attempt].remove(record)
                        problems += _record_problems(reader, trajectory, record)
        except AssayError as exc:
            problems.append(f"run {run}: {exc}")
            continue
        problems += [
            f"{run}:{record.attempt}: no decided attempt of the run has the head {record.head}"
            for left in wanted.values()
            for record in left
        ]
    return len(records), problems


def _record_problems(reader: RunReader, trajectory: Trajectory, record: MemoryRecord) -> Iterator[str]:
    outcome = verified_outcome(trajectory)
    if outcome is None:
        yield f"{record.run}:{record.attempt}: its outcome cannot be trusted now"
        return
    made = remember(reader, trajectory, passed=outcome == "pass", previous=record.previous)
    if replace(made, head=record.head) != record:
        yield f"{record.run}:{record.attempt}: the record is not what this attempt shows"


def remember(reader: RunReader, trajectory: Trajectory, *, passed: bool, previous: str) -> MemoryRecord:
    """Returns the record of one attempt."""
    before = instruction_for(reader, trajectory)[-MOST_TEXT:]
    way = {step.index for step in judged_path(trajectory).steps} if passed else set()
    items = []
    for step in trajectory.steps:
        for call, seen in zip(step.tool_calls, step.observations, strict=False):
            if step.actor != "agent" or call.error is not None:
                continue
            after = seen.content[-MOST_TEXT:]
            kind: Literal["success", "place"] = "success" if step.index in way else "place"
            items.append(MemoryItem(kind, before, describe_act(call)[:MOST_TEXT], after, step.index))
            before = after
    recoveries = find_recoveries(judged_path(trajectory).steps) if passed else ()
    return MemoryRecord(
        trajectory.run, trajectory.attempt, trajectory.head, trajectory.task, trajectory.task_digest, passed,
        (*items, *remember_pages(trajectory), *recoveries), previous,
    )  # fmt: skip


def remember_pages(trajectory: Trajectory) -> Iterator[MemoryItem]:
    """Yields the moves of an attempt between pages; none if it was in no browser, or its trees were not recorded
    whole."""
    reading = PageReader()
    for step in judged_path(trajectory).steps:
        for call, seen in zip(step.tool_calls, step.observations, strict=False):
            if step.actor != "agent" or call.error is not None or seen.error:
                continue
            shown = seen.content if seen.truncated is None else None
            for move in reading.read(call.name, call.parsed or {}, shown):
                yield page_item(move, step.index, step.state)


def summarise_memory(records: Sequence[MemoryRecord]) -> list[dict[str, str | int]]:
    """Returns attempts, passes and items by task."""
    found: dict[str, dict[str, str | int]] = {}
    for record in records:
        row = found.setdefault(
            record.task_digest, {"task": record.task, "attempts": 0, "passed": 0, "items": 0, "latest": ""}
        )
        for name, amount in (("attempts", 1), ("passed", int(record.passed)), ("items", len(record.items))):
            row[name] = int(row[name]) + amount
        row["latest"] = f"{record.run}:{record.attempt}"
    return list(found.values())
