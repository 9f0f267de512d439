"""Names, keys and retries of the objects of a run.

runs/RUN/epochs/N.json      one a coordinator
runs/RUN/rounds/N.json      the grants of one round
runs/RUN/finals/hh/ATTEMPT  the trial that decides an attempt; hh spreads the keys over 256 prefixes
runs/RUN/cut/ATTEMPT/TOKEN  trials that decide nothing: superseded, retried, interrupted
runs/RUN/inputs/CHAIN       recorded attempts that the work of a run reads
runs/RUN/parts/PART.json    runs that are parts of the work of a training
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import re
import string
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from assay.errors import StoreError
from assay.records import DIGEST_PREFIX, digest_bytes
from assay.rollout.plan import attempt_id
from assay.store.objects.interface import ObjectEntry, ObjectStore, ObjectStoreError

FIRST_WAIT_S = 0.2
"""First wait before a request is repeated; doubles each time, up to `LONGEST_WAIT_S`, with jitter."""
LONGEST_WAIT_S = 10.0
OUTAGE_S = 30.0
"""Time of failures after which a warning gives the reason; the next one follows after ten times as long."""
MOST_NAME = 180
"""Longest name of an attempt in a key; a longer one is named by its digest."""

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_PLAIN = string.ascii_letters + string.digits + "._@-"
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9._@=-]+")
_ESCAPES = {code: f"={code:02x}" for code in range(128) if chr(code) not in _PLAIN}


def object_name(text: str) -> str:
    """Returns a text as one segment of a key: other characters become `=` and the two hex digits of each byte. Distinct
    texts have distinct names."""
    name = text.replace("=", "=3d").replace("/", "=2f")
    if not _PLAIN_TEXT.fullmatch(name):
        name = text.translate(_ESCAPES)
    if not name.isascii():
        name = "".join(c if c.isascii() else "".join(f"={byte:02x}" for byte in c.encode()) for c in name)
    if 0 < len(name) <= MOST_NAME:
        return name if name[0] not in "._@-" else f"={ord(name[0]):02x}{name[1:]}"
    return f"=blake3-{digest_bytes(text.encode()).removeprefix(DIGEST_PREFIX)}"


def object_name_maker(task: str) -> Callable[[int], str]:
    """Returns the function that gives the `object_name` of a task's attempt with a number, at less cost."""
    first = object_name(attempt_id(task, 0))
    if not first.endswith("@0") or len(first) > MOST_NAME - 20:
        return lambda number: object_name(attempt_id(task, number))
    prefix = first[:-1]
    return lambda number: f"{prefix}{number}"


@lru_cache(maxsize=64)
def run_prefix(run: str) -> str:
    return f"runs/{object_name(run)}/"


def final_key(run: str, attempt: str) -> str:
    spread = digest_bytes(attempt.encode())[len(DIGEST_PREFIX) :][:2]
    return f"{run_prefix(run)}finals/{spread}/{object_name(attempt)}"


def cut_key(run: str, attempt: str, token: str) -> str:
    return f"{run_prefix(run)}cut/{object_name(attempt)}/{token}"


def input_key(run: str, chain: str) -> str:
    return f"{run_prefix(run)}inputs/{object_name(chain)}"


def numbered_key(run: str, kind: str, number: int) -> str:
    """Returns the key of an epoch or round. Numbers have eight digits, so that keys sort by number."""
    return f"{run_prefix(run)}{kind}/{number:08d}.json"


class _OutageWarning:
    """Warns of requests to a place that keep failing, for all those of this process together."""

    def __init__(self) -> None:
        self._warned_at = -math.inf

    def warn(self, failing_s: float, reason: ObjectStoreError) -> None:
        """Warns, if it is for long that a request failed whenever it was repeated."""
        now = time.monotonic()
        if failing_s >= OUTAGE_S and now - self._warned_at >= 10 * OUTAGE_S:
            self._warned_at = now
            _log.warning("requests to the place have failed for %.0f s, and are repeated: %s", failing_s, reason)


outage_warning = _OutageWarning()


async def answered(request: Callable[[], Awaitable[_T]], patience_s: float | None = None) -> _T:
    """Repeats a request until the object store answers.

    Raises:
        ObjectStoreError: It did not answer within `patience_s` seconds; None waits forever.
    """
    clock = asyncio.get_running_loop().time
    began, wait = clock(), FIRST_WAIT_S
    while True:
        try:
            return await request()
        except ObjectStoreError as exc:
            if patience_s is not None and clock() - began + wait > patience_s:
                raise
            outage_warning.warn(clock() - began, exc)
        await asyncio.sleep(wait * (0.5 + random.random()))
        wait = min(2 * wait, LONGEST_WAIT_S)


async def create_or_read(
    objects: ObjectStore, key: str, data: bytes, *, limit: int, patience_s: float | None = None
) -> bytes:
    """Creates an object, and returns the bytes that are at the key from now on: `data`, or those of an earlier writer.

    A create whose answer was lost is repeated and refused, and the caller recognizes its own bytes by their token.

    Raises:
        ObjectStoreError: The store did not answer within `patience_s` seconds; the object may have been created.
        StoreError: The object at the key is longer than `limit` bytes.
    """
    try:
        created = await objects.create(key, data)
    except ObjectStoreError:
        created = await answered(lambda: objects.create(key, data), patience_s)
    if created:
        return data
    return await read_object(objects, key, limit=limit, patience_s=patience_s)


async def read_object(
    objects: ObjectStore, key: str, *, limit: int, size: int | None = None, patience_s: float | None = None
) -> bytes:
    """Reads an object of at most `limit` bytes, whose `size` a listing may have given. Raises `StoreError` for a longer
    or absent one, `ObjectStoreError`."""
    try:
        return await answered(lambda: objects.read(key, limit=limit, size=size), patience_s)
    except ValueError as exc:
        raise StoreError(f"{key} has more than {limit} bytes: it was changed") from exc
    except FileNotFoundError as exc:
        raise StoreError(f"{key} is missing: it was removed") from exc


async def list_pages(
    objects: ObjectStore, prefix: str, patience_s: float | None = None
) -> AsyncIterator[Sequence[ObjectEntry]]:
    """Yields the pages of a listing; one that breaks off goes on after the last key. Raises `ObjectStoreError`."""
    last = ""

    async def next_page() -> Sequence[ObjectEntry]:
        async for page in objects.list(prefix, after=last):
            if page:
                return page
        return ()

    while page := await answered(next_page, patience_s):
        yield page
        last = page[-1].key
