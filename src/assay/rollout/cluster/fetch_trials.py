"""Copies the trials of a run from the place into a store, where they are an ordinary run.

Finals decide their attempts; retried and interrupted trials are copied beside them, as an ordinary run keeps them, once
the attempt is decided.
Superseded trials stay in the place, under `cut/`: their chains have the names of the finals, and they never count.

Invariant: chains are copied byte for byte and recomputed. Covered: a final that is damaged, of another attempt, task or
seed, or that states another outcome than its chain; it is refused with its key. Not covered: see `commits`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from assay.errors import StoreError
from assay.rollout.plan import PlannedAttempt
from assay.store import AttemptRow, RunStore
from assay.store.objects.interface import ObjectStore
from assay.store.objects.transfer import transfer
from assay.store.run import CheckedChain

from .commits import TrialRecord, list_final_sizes, read_final, read_record, unpack_unchecked
from .objects import final_key, list_pages, object_name, run_prefix
from .shared_blobs import fetch_blobs

MOST_ATTEMPTS = 64
"""That are read and added together."""
MOST_BYTES = 16 << 20
"""Of them, and of the events that are added in one transaction, unless one chain has more."""


class FetchResult(NamedTuple):
    """Trials of a run, after a fetch."""

    finals: int
    """Finals that are in the store now."""
    kept_apart: int
    """Superseded trials, others whose chain has the name of a chain in the store, and those of attempts that are not
    decided: they stay in the place."""


class PlacedNames(NamedTuple):
    """Where the trials of a run lie in a place: under the run's name, or among those of the work of which it is a
    part."""

    run: str
    """Name in the place."""
    prefix: str = ""
    """Begins the names of its attempts there."""

    @classmethod
    def of_part(cls, work: str, run: str) -> PlacedNames:
        """Returns the names of a run that is a part of some work; the work itself is a part, too."""
        return cls(work, "" if run == work else f"{run}/")

    def of(self, planned: PlannedAttempt) -> PlannedAttempt:
        """Returns an attempt under its name in the place."""
        return planned._replace(id=self.prefix + planned.id) if self.prefix else planned


async def fetch_trials(
    store: RunStore, objects: ObjectStore, planned: Sequence[PlannedAttempt], names: PlacedNames | None = None
) -> FetchResult:
    """Copies the trials that the store lacks. Repeating it is safe.

    Args:
        store: The run, open for writing.
        objects: The place.
        planned: All attempts of the run.
        names: Where the trials lie; None: under the run's own name.

    Raises:
        StoreError: A record or a blob is damaged or missing; the message names its key. What was copied stays.
    """
    names = names or PlacedNames(store.run)
    finals = await fetch_finals(store, objects, planned, names)
    return FetchResult(finals, await _fetch_cuts(store, objects, planned, names))


async def fetch_finals(
    store: RunStore, objects: ObjectStore, planned: Sequence[PlannedAttempt], names: PlacedNames | None = None
) -> int:
    """Copies the finals of these attempts that the store lacks; returns how many the place has. Raises as
    `fetch_trials`."""
    names = names or PlacedNames(store.run)
    sizes = await list_final_sizes(objects, names.run)
    present = {row.attempt for row in store.attempts() if row.final}
    copy, there = _Copy(store, objects, set()), 0
    batch: list[tuple[PlannedAttempt, int]] = []
    batch_bytes = 0
    for one in planned:
        size = sizes.get(object_name(names.of(one).id))
        there += size is not None
        if size is None or one.id in present:
            continue
        if len(batch) == MOST_ATTEMPTS or batch_bytes + size > MOST_BYTES:
            await _fetch_batch(copy, batch, names)
            batch, batch_bytes = [], 0
        batch.append((one, size))
        batch_bytes += size
    await _fetch_batch(copy, batch, names)
    return there


async def _fetch_batch(copy: _Copy, batch: Sequence[tuple[PlannedAttempt, int]], names: PlacedNames) -> None:
    records: dict[str, TrialRecord] = {}

    async def read(one: tuple[PlannedAttempt, int]) -> None:
        planned, size = one
        records[planned.id] = await read_final(copy.objects, names.run, names.of(planned).id, size)

    await transfer(batch, read)
    checked: list[CheckedChain] = []
    size = 0
    try:
        for planned, _ in batch:
            record = records.pop(planned.id)
            if size + record.body.size > MOST_BYTES:
                copy.store.add_checked(checked)
                checked, size = [], 0
            checked.append(await _check_final(copy, planned, record, names))
            size += record.body.size
    finally:
        copy.store.add_checked(checked)


class _Copy(NamedTuple):
    """A copy of a run under way."""

    store: RunStore
    objects: ObjectStore
    fetched: set[str]
    """Blobs that are in the store."""


async def _check_final(copy: _Copy, planned: PlannedAttempt, record: TrialRecord, names: PlacedNames) -> CheckedChain:
    def check(row: AttemptRow) -> None:
        chain = planned.chain(record.body.retry)
        expected = ("final", chain, planned.id, planned.loaded.task.digest, planned.seed, True)
        found = (record.kind, row.chain, row.attempt, row.task_digest, row.seed, row.final)
        result = record.body.result
        if found != expected:
            raise StoreError(f"its chain is not a finished trial of {planned.id!r} of this run")
        stated = None if result is None else (result.outcome, result.score, result.broke)
        if stated != (row.outcome, row.score, row.broke):
            raise StoreError("its result is not that of its chain")

    try:
        return await _check_record(copy, record, check)
    except StoreError as exc:
        key = final_key(names.run, names.of(planned).id)
        raise StoreError(f"{copy.objects}: {key} is refused: {exc}") from exc


async def _fetch_cuts(
    store: RunStore, objects: ObjectStore, planned: Sequence[PlannedAttempt], names: PlacedNames
) -> int:
    """Copies retried and interrupted trials whose chains' names are free; returns the number of the others.

    Those of an attempt that is not decided stay in the place: the trial that decides it may have a chain of that name.
    """
    apart, prefix = 0, f"{run_prefix(names.run)}cut/"
    ours = {object_name(names.of(one).id) for one in planned} if names.prefix else None
    decided = {object_name(names.prefix + row.attempt): row.attempt for row in store.attempts() if row.final}
    async for page in list_pages(objects, prefix):
        for entry in page:
            name = entry.key[len(prefix) :].partition("/")[0]
            if ours is not None and name not in ours:
                continue
            if name not in decided:
                apart += 1
                continue
            record = await read_record(objects, entry.key, names.run, None, size=entry.size)
            row = store.row(record.body.chain)
            if record.kind == "superseded" or (row is not None and row.head != record.body.head):
                apart += 1
            elif row is None:
                try:
                    await add_record(store, objects, record, partial(_require_cut, decided[name]))
                except StoreError as exc:
                    raise StoreError(f"{objects}: {entry.key} is refused: {exc}") from exc
    return apart


def _require_cut(attempt: str, row: AttemptRow) -> None:
    if row.final:
        raise StoreError("its chain decides an attempt")
    if row.attempt != attempt:
        raise StoreError(f"its chain is not of {attempt!r}")


async def add_record(
    store: RunStore, objects: ObjectStore, record: TrialRecord, check: Callable[[AttemptRow], None] = lambda _: None
) -> None:
    """Adds the chain of a record and its blobs to a store; `check` may raise to prevent it. Raises `StoreError`."""
    store.add_checked([await _check_record(_Copy(store, objects, set()), record, check)])


async def _check_record(copy: _Copy, record: TrialRecord, check: Callable[[AttemptRow], None]) -> CheckedChain:
    """Recomputes the chain of a record, and fetches its blobs that are not there yet."""
    body, (store, objects, fetched) = record.body, copy
    checked = store.check_chain(body.chain, unpack_unchecked(body), body.head, check, is_own=True)
    missing = [one for one in body.blobs if one not in fetched]
    if missing:
        await fetch_blobs(objects, store.blobs, missing)  # before the chain that names them is added
        fetched.update(missing)
    return checked
