"""Epochs of coordinators and rounds of grants: numbered objects, each created once.

A coordinator takes the next epoch of a run before it does anything else, and agents refuse the leases of a lower one.
The grants of a round are one object: of two coordinators that decide the same round, the one that loses the create goes
on with the grants of the other. A round also states the scores that it was decided on, so that a new coordinator reads
the rounds and the finals of the last one only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec

from assay.errors import StoreError
from assay.rollout.schedule.allocation import Grant
from assay.store.objects.interface import ObjectStore

from .commits import Name, Number, Token
from .objects import create_or_read, list_pages, numbered_key, read_object, run_prefix

MOST_RECORD_BYTES = 1 << 26

Score = Annotated[float, msgspec.Meta(ge=0, le=1)]


class EpochRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The term of one coordinator over one run."""

    schema: int
    run: Name
    epoch: Number
    token: Token
    """Random, of this coordinator."""


class RoundRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The grants of one round."""

    schema: int
    run: Name
    round: Number
    epoch: Number
    """Of the coordinator that decided it."""
    grants: tuple[Grant, ...]
    scores: tuple[Score | None, ...]
    """Scores of the attempts of the round before, in the order in which they were planned; None without an outcome."""


async def take_epoch(objects: ObjectStore, run: str, token: str) -> int:
    """Takes the next epoch of a run, and returns its number, from 1. Raises `StoreError`."""
    epoch = await _count(objects, run, "epochs") + 1
    while True:
        key = numbered_key(run, "epochs", epoch)
        data = msgspec.json.encode(EpochRecord(1, run, epoch, token))
        stored = await create_or_read(objects, key, data, limit=MOST_RECORD_BYTES)
        if stored is data or _decode(stored, EpochRecord, run, key).token == token:
            return epoch
        epoch += 1


async def count_epochs(objects: ObjectStore, run: str) -> int:
    """Returns the highest epoch that a coordinator of a run has taken; 0 without one."""
    return await _count(objects, run, "epochs")


async def publish_round(objects: ObjectStore, record: RoundRecord) -> RoundRecord:
    """Publishes the grants of a round; returns the record that holds from now on, which may be another coordinator's.

    Raises:
        StoreError: The record in the store is damaged.
    """
    key = numbered_key(record.run, "rounds", record.round)
    data = msgspec.json.encode(record)
    stored = await create_or_read(objects, key, data, limit=MOST_RECORD_BYTES)
    return record if stored is data else _decode(stored, RoundRecord, record.run, key)


async def read_rounds(objects: ObjectStore, run: str) -> Sequence[RoundRecord]:
    """Returns the rounds of a run in order. Raises `StoreError` if one is damaged or missing."""
    records = []
    for number in range(await _count(objects, run, "rounds", first=0)):
        key = numbered_key(run, "rounds", number)
        data = await read_object(objects, key, limit=MOST_RECORD_BYTES)
        records.append(_decode(data, RoundRecord, run, key))
        if records[-1].round != number:
            raise StoreError(f"{key} is of round {records[-1].round}: it was moved")
    return records


async def _count(objects: ObjectStore, run: str, kind: str, first: int = 1) -> int:
    """Returns the highest number of the objects of a kind, plus 1 where numbers start at 0; 0 without an object."""
    prefix, highest = f"{run_prefix(run)}{kind}/", first - 1
    async for page in list_pages(objects, prefix):
        for entry in page:
            digits = entry.key.removeprefix(prefix).removesuffix(".json")
            if len(digits) == 8 and digits.isascii() and digits.isdigit():
                highest = max(highest, int(digits))
    return highest + 1 - first


_Record = TypeVar("_Record", EpochRecord, RoundRecord)


def _decode(data: bytes, kind: type[_Record], run: str, key: str) -> _Record:
    try:
        record = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"{key} is damaged: {exc}") from exc
    if record.run != run or record.schema != 1:
        raise StoreError(f"{key} is of run {record.run!r}, schema {record.schema}: expected {run!r}, 1")
    return record
