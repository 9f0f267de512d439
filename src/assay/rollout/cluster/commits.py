"""Commits trials to the object store: the last act of a trial is one create of the attempt's final object.

The first create wins, and is the data and the commit in one request. A trial has a random token of its own: a refused
create is read, and the trial's own token means that the answer to an earlier request was lost. With a token per node or
session, a node that runs an attempt twice would take its first trial's object for its second's and count the attempt
twice.

Invariant: an attempt has at most one final object, and no trial that reached the store is lost: one that decides
nothing (superseded, retried, interrupted) is created under `cut/`, is never counted, and is never deleted.

Objects are read as hostile input. Covered: size, types and patterns of all fields, another attempt's object under the
key, zstd data larger than it says, events that do not give the head. Not covered: a writer with access to the store who
recomputes the chain; keep a receipt elsewhere.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Annotated, Any, Literal

import msgspec

from assay.errors import StoreError
from assay.records import DIGEST_PREFIX, GENESIS, ModelCalled
from assay.rollout.attempt.trial import TrialResult
from assay.rollout.limits.run_budget import ModelUse, use_of_calls
from assay.store.chain import decode_raw, link_digests
from assay.store.objects.interface import ObjectStore

from .objects import create_or_read, cut_key, final_key, list_pages, read_object, run_prefix
from .placement import use_of_result

MOST_OBJECT_BYTES = 1 << 28
"""Of one trial, compressed."""
MOST_EVENT_BYTES = 1 << 30
"""Of one trial's events, not compressed."""
MOST_EVENTS = 1 << 22
"""Of one trial. Without a bound, 100 kB would hold a gigabyte of empty events, which takes minutes and gigabytes."""

Token = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{32}\Z")]
Digest = Annotated[str, msgspec.Meta(pattern=r"\A" + DIGEST_PREFIX + r"[0-9a-f]{64}\Z")]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
Number = Annotated[int, msgspec.Meta(ge=0)]
CutReason = Literal["superseded", "retried", "interrupted"]


class TrialBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The record of a trial: its chain, compressed, and the result, which a coordinator reads without the chain."""

    chain: Name
    retry: Number
    length: Number
    head: Digest
    result: TrialResult | None
    """None for an interrupted trial."""
    size: Annotated[int, msgspec.Meta(ge=0, le=MOST_EVENT_BYTES)]
    """Bytes of the events, not compressed."""
    events: bytes
    """Zstandard of the MessagePack array of the events' exact bytes."""
    blobs: tuple[Digest, ...] = ()
    """Blobs that the events name; they were put into the store before."""


class TrialRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The object of one trial."""

    schema: Literal[1]
    run: Name
    attempt: Name
    token: Token
    kind: Literal["final", "superseded", "retried", "interrupted", "input"]
    """`input`: a recorded attempt of another run, which the work of this one reads; its attempt is its chain."""
    body: TrialBody


class CommitResult(msgspec.Struct, frozen=True, gc=False):
    """The end of a commit."""

    outcome: Literal["won", "superseded"]
    result: TrialResult | None
    """The result of the attempt: the trial's own, or that of the trial that came first."""


_DECODER = msgspec.msgpack.Decoder(TrialRecord)
_ENCODER = msgspec.msgpack.Encoder()
_EVENTS = msgspec.msgpack.Decoder(Annotated[tuple[bytes, ...], msgspec.Meta(max_length=MOST_EVENTS)])
_MODEL_CALL = f'"{ModelCalled.__struct_config__.tag}"'.encode()
"""Is part of each event that records a call; other events are not decoded for them."""


def new_token() -> str:
    """Returns a token for one trial."""
    return secrets.token_hex(16)


def pack_trial(
    chain: str,
    retry: int,
    head: str,
    events: Sequence[bytes],
    result: TrialResult | None,
    blobs: tuple[str, ...] = (),
) -> TrialBody:
    """Returns the body of a trial from the exact bytes of its events. Raises `StoreError` if they are too many."""
    raw = _ENCODER.encode(events)
    for count, most, what in ((len(raw), MOST_EVENT_BYTES, "bytes"), (len(events), MOST_EVENTS, "events")):
        if count > most:
            raise StoreError(f"chain {chain} has {count} {what}: at most {most} can be committed")
    packed: bytes = _zstd().compress(raw, asbytes=True)
    return TrialBody(chain, retry, len(events), head, result, len(raw), packed, blobs)


def unpack_events(body: TrialBody) -> tuple[bytes, ...]:
    """Returns the exact bytes of a trial's events, which give its head. Raises `StoreError` where they do not."""
    events = unpack_unchecked(body)
    if head_of(body.chain, events) != body.head:
        raise StoreError(f"the events of chain {body.chain} do not give its head: they were changed")
    return events


def unpack_unchecked(body: TrialBody) -> tuple[bytes, ...]:
    """As `unpack_events`, for a caller that recomputes the head."""
    try:
        raw = _zstd().decompress(body.events, body.size, asbytes=True) if body.size else b""
        events: tuple[bytes, ...] = _EVENTS.decode(raw)
    except (OSError, ValueError, msgspec.DecodeError) as exc:
        raise StoreError(f"the events of chain {body.chain} are damaged: {exc}") from exc
    if len(events) != body.length:
        raise StoreError(f"the events of chain {body.chain} do not give its head: {len(events)} of {body.length}")
    return events


def use_of_trial(body: TrialBody) -> ModelUse:
    """Returns the model use of a trial; of an interrupted one by the calls that its events record.

    Raises:
        StoreError: An interrupted trial's events are damaged.
    """
    if body.result is not None:
        return use_of_result(body.result)
    calls = [(index, raw) for index, raw in enumerate(unpack_events(body)) if _MODEL_CALL in raw]
    bodies = [decode_raw(body.chain, index, raw) for index, raw in calls]
    return use_of_calls([one.call for one in bodies if isinstance(one, ModelCalled)])


async def commit_final(
    objects: ObjectStore, run: str, attempt: str, token: str, body: TrialBody, patience_s: float | None = None
) -> CommitResult:
    """Commits a trial as the one that decides its attempt, unless another did.

    A superseded trial is in `cut/` when this returns. The call may be repeated with the same token at any time.

    Args:
        objects: The object store.
        run: Name of the run.
        attempt: Id of the attempt.
        token: Token of this trial; never that of another trial.
        body: What the trial leaves.
        patience_s: Seconds to wait for a store that does not answer; None waits forever.

    Raises:
        ObjectStoreError: The store did not answer in time; the trial may have been committed.
        StoreError: The attempt's final object is damaged. The trial is in `cut/`.
    """
    data = _encode(run, attempt, token, "final", body)
    key = final_key(run, attempt)
    stored = await create_or_read(objects, key, data, limit=MOST_OBJECT_BYTES, patience_s=patience_s)
    if stored is data:
        return CommitResult("won", body.result)
    try:
        record = decode_record(stored, run, attempt)
    except StoreError:
        await keep_cut(objects, run, attempt, token, body, "superseded", patience_s=patience_s)
        raise
    if record.token == token:
        return CommitResult("won", record.body.result)
    await keep_cut(objects, run, attempt, token, body, "superseded", patience_s=patience_s)
    return CommitResult("superseded", record.body.result)


async def keep_cut(
    objects: ObjectStore,
    run: str,
    attempt: str,
    token: str,
    body: TrialBody,
    reason: CutReason,
    *,
    patience_s: float | None = None,
) -> None:
    """Stores a trial that decides nothing. Raises `ObjectStoreError`; the call may be repeated."""
    data = _encode(run, attempt, token, reason, body)
    key = cut_key(run, attempt, token)
    await create_or_read(objects, key, data, limit=MOST_OBJECT_BYTES, patience_s=patience_s)


async def list_finals(objects: ObjectStore, run: str, patience_s: float | None = None) -> set[str]:
    """Returns the names (`object_name`) of a run's attempts that have a final object. Raises `ObjectStoreError`."""
    names: set[str] = set()
    begin = len(_finals_prefix(run)) + len("hh/")
    async for page in list_pages(objects, _finals_prefix(run), patience_s):
        names.update([entry.key[begin:] for entry in page])
    return names


async def list_final_sizes(objects: ObjectStore, run: str, patience_s: float | None = None) -> dict[str, int]:
    """Returns the bytes of each object that `list_finals` names. Raises `ObjectStoreError`."""
    sizes: dict[str, int] = {}
    begin = len(_finals_prefix(run)) + len("hh/")
    async for page in list_pages(objects, _finals_prefix(run), patience_s):
        sizes.update([(entry.key[begin:], entry.size) for entry in page])
    return sizes


def _finals_prefix(run: str) -> str:
    return f"{run_prefix(run)}finals/"


async def read_final(objects: ObjectStore, run: str, attempt: str, size: int | None = None) -> TrialRecord:
    """Returns the final record of an attempt. Raises `ObjectStoreError`, or `StoreError` if it is absent or damaged."""
    return await read_record(objects, final_key(run, attempt), run, attempt, size=size)


async def read_record(
    objects: ObjectStore,
    key: str,
    run: str,
    attempt: str | None,
    *,
    size: int | None = None,
    patience_s: float | None = None,
) -> TrialRecord:
    """Returns the record at a key, of this attempt (None: any). Raises as `read_final`; the message names the key."""
    data = await read_object(objects, key, limit=MOST_OBJECT_BYTES, size=size, patience_s=patience_s)
    try:
        return decode_record(data, run, attempt)
    except StoreError as exc:
        raise StoreError(f"{key}: {exc}") from exc


async def read_finals(
    objects: ObjectStore, run: str, attempts: Iterable[str], *, at_once: int = 64
) -> dict[str, TrialRecord]:
    """Reads the final records of several attempts. Raises `StoreError` if one is absent or damaged."""
    left, records = iter(attempts), dict[str, TrialRecord]()

    async def work() -> None:
        for attempt in left:
            records[attempt] = await read_final(objects, run, attempt)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    return records


async def read_cuts(objects: ObjectStore, run: str, patience_s: float | None = None) -> list[TrialRecord]:
    """Returns the records of all trials of a run that decide nothing. Raises `ObjectStoreError`, `StoreError`."""
    records = []
    async for page in list_pages(objects, f"{run_prefix(run)}cut/", patience_s):
        for entry in page:
            records.append(await read_record(objects, entry.key, run, None, size=entry.size, patience_s=patience_s))
    return records


def decode_record(data: bytes, run: str, attempt: str | None) -> TrialRecord:
    """Decodes a trial's object. Raises `StoreError` if it is damaged, or not of this run and attempt (None: any)."""
    what = f"the record of {'a trial' if attempt is None else f'attempt {attempt!r}'} of run {run!r}"
    try:
        record = _DECODER.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as exc:
        raise StoreError(f"{what} is damaged: {exc}") from exc
    if record.run != run or attempt not in (None, record.attempt):
        raise StoreError(f"{what} is of {record.attempt!r} of {record.run!r}: it was moved")
    return record


def _encode(run: str, attempt: str, token: str, kind: Literal["final"] | CutReason, body: TrialBody) -> bytes:
    return _ENCODER.encode(TrialRecord(1, run, attempt, token, kind, body))


def encode_input(run: str, body: TrialBody) -> bytes:
    """Returns the object of a recorded attempt that the work of a run reads."""
    return _ENCODER.encode(TrialRecord(1, run, body.chain, new_token(), "input", body))


def head_of(chain: str, events: Sequence[bytes]) -> str:
    """Returns the head of a chain of these events."""
    *_, head = GENESIS, *link_digests(chain, 0, GENESIS, events)
    return head


@cache
def _zstd() -> Any:
    import pyarrow as pa  # late: slow to import

    return pa.Codec("zstd", 3)
