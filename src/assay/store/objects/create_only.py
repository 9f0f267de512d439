"""The start-up self-test of an object store: does it create an object once, whole, and never overwrite it?

Everything that Assay keeps in object storage rests on this, and some servers ignore the condition without an error.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets

from assay.errors import StoreError

from .interface import ObjectStore, ObjectStoreError

PREFIX = "self-test/"
RACERS = 8
RACE_BYTES = 64 * 1024
"""Of each racer's content: more than one network packet, so that mixed content would show."""
_REMEDY = (
    "Use a store with conditional writes: Amazon S3, Cloudflare R2, Google Cloud Storage, Azure Blob Storage, "
    "SeaweedFS 4, or a folder (file:///FOLDER)"
)


async def require_create_only(place: ObjectStore) -> None:
    """Creates an object twice, and another by 8 requests at once, under `self-test/RANDOM`, and deletes both.

    Raises:
        StoreError: The store overwrites an object, lets several requests create the same one, or mixes their content;
            the message says which.
        ObjectStoreError: It cannot be reached, or loses answers.
    """
    key = f"{PREFIX}{secrets.token_hex(8)}"
    try:
        await _require_kept(place, f"{key}/twice")
        await _require_one_winner(place, f"{key}/race")
    finally:
        for name in ("twice", "race"):
            with contextlib.suppress(ObjectStoreError):  # what is left is small, and `assay store gc` deletes it
                await place.delete(f"{key}/{name}")


async def _require_kept(place: ObjectStore, key: str) -> None:
    first, second = b"the first content", b"the second content"
    if not await place.create(key, first):
        raise StoreError(f"{place} reports that the new object {key} exists: it cannot be used. {_REMEDY}")
    is_created = await place.create(key, second)
    content = await place.read(key)
    if content == second or is_created:
        what = "overwrites an object that exists" if content == second else "reports a second creation as successful"
        raise StoreError(
            f"{place} {what} (it ignores `If-None-Match: *`), so attempts could be lost or counted twice: it is "
            f"refused. {_REMEDY}"
        )
    if content != first:
        raise StoreError(f"{place} returns other bytes than were written to {key}: it is refused. {_REMEDY}")


async def _require_one_winner(place: ObjectStore, key: str) -> None:
    contents = [bytes([65 + number]) * RACE_BYTES for number in range(RACERS)]
    try:
        async with asyncio.TaskGroup() as group:
            answers = [group.create_task(place.create(key, content)) for content in contents]
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None
    winners = [content for content, answer in zip(contents, answers, strict=True) if answer.result()]
    if len(winners) != 1:
        raise StoreError(
            f"{place} let {len(winners)} of {RACERS} simultaneous requests create the same object: its creation is not "
            f"atomic, and it is refused. {_REMEDY}"
        )
    if await place.read(key) != winners[0]:
        raise StoreError(
            f"{place} does not keep the content of the request that created an object: it is refused. {_REMEDY}"
        )
