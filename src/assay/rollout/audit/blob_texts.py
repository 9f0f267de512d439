"""Blobs of a store as texts, for rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from assay.errors import StoreError
from assay.store import BlobStore

MOST_TEXT: Final = 4 << 20
"""Largest blob, in bytes, that rules read."""


def texts_of(blobs: BlobStore) -> Callable[[str], str | None]:
    """Returns a reader of blobs as text; it gives None for a missing, oversized or binary blob."""

    def text(digest: str) -> str | None:
        try:
            data = blobs.get(digest)
        except (StoreError, ValueError):
            return None
        if len(data) > MOST_TEXT:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None

    return text
