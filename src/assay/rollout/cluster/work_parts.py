"""Records of the parts of some work: `runs/WORK/parts/NAME.json`, which the command publishes and nodes read.

Each is created once. What a record holds is the business of its work; here it is bytes of at most `MOST_BYTES`.
"""

from __future__ import annotations

from assay.errors import StoreError
from assay.store.objects.interface import ObjectStore

from .objects import answered, create_or_read, list_pages, object_name, run_prefix

MOST_BYTES = 1 << 28


def part_key(work: str, name: str) -> str:
    """Returns the key of a record."""
    return f"{run_prefix(work)}parts/{object_name(name)}.json"


async def publish_part(objects: ObjectStore, work: str, name: str, data: bytes) -> bytes:
    """Creates a record, unless it is there; returns the bytes that are there now. Raises `StoreError`."""
    return await create_or_read(objects, part_key(work, name), data, limit=MOST_BYTES)


async def read_part(objects: ObjectStore, key: str) -> bytes | None:
    """Returns the record at a key; None if it is absent. Raises `StoreError` if it is too large."""
    try:
        return await answered(lambda: objects.read(key, limit=MOST_BYTES))
    except FileNotFoundError:
        return None
    except ValueError as exc:
        raise StoreError(f"{key} has more than {MOST_BYTES} bytes: it was changed") from exc


async def any_part(objects: ObjectStore, work: str) -> str | None:
    """Returns the key of a record of a work; None without one."""
    async for page in list_pages(objects, f"{run_prefix(work)}parts/"):
        for entry in page:
            return entry.key
    return None
