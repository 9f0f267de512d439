"""A place for objects that are created once and never changed: a bucket, a folder, or memory in a simulation.

The one primitive is *create if absent*: S3, R2, Azure, GCS, SeaweedFS and folders have it; not all of them have
compare-and-swap.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from assay.errors import StoreError


class ObjectStoreError(StoreError):
    """The place could not be asked, or its answer is lost: the object may have been created."""


class ObjectEntry(msgspec.Struct, frozen=True):
    key: str
    size: int
    modified: float = 0.0
    """Unix time at which it was created, as the place says; garbage collection compares it."""


@runtime_checkable
class ObjectStore(Protocol):
    """Keys are relative paths of plain segments (`runs/R/finals/ab/ATTEMPT`)."""

    async def create(self, key: str, data: bytes) -> bool:
        """Creates an object whole, and returns True; returns False if the key exists, whose object stays.

        Raises `ObjectStoreError` if it is unknown whether the object was created: read it, or create it again.
        """

    async def read(self, key: str, *, limit: int | None = None, size: int | None = None) -> bytes:
        """Reads an object. Its `size`, where a listing gave it, makes that cheaper.

        Raises `FileNotFoundError` for an absent key, `ValueError` for an object longer than `limit` bytes, and
        `ObjectStoreError`.
        """

    def list(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ObjectEntry]]:
        """Yields pages of the objects whose keys begin with `prefix`, in the order of keys, after the key `after`.

        SeaweedFS orders folder by folder (`a/R/x` before `a/R-1/x`): `after` is only for keys that it orders alike.
        """

    async def delete(self, key: str) -> None:
        """Deletes an object if it exists; for garbage collection and erasure only."""
