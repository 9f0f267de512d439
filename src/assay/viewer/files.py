"""Compares the final files of attempts, from the manifests of their last sealed states.

A manifest is an untrusted blob and is read with limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from assay.errors import StoreError
from assay.records import EvidenceAdded
from assay.store import BlobStore
from assay.store.chain import decode_event

from .chains import Chain
from .outline import Outline

MOST_BYTES: Final = 16 << 20
MOST_PATHS: Final = 400


class EndPath(msgspec.Struct):
    """A path in a sealed state."""

    path: str
    kind: str = "changed"
    type: str = "file"
    digest: str | None = None
    size: int | None = None


Ends = dict[str, EndPath]
_MANIFEST = msgspec.json.Decoder(list[EndPath])


def compare_end_files(ends: Sequence[Ends | None]) -> dict[str, Any]:
    """Returns the paths that differ at the end of attempts.

    Args:
        ends: Of each attempt; see `read_ends`.

    Returns:
        `known` (for each attempt, whether its last state is in the store), `paths` (each with `path` and, an attempt,
        null where it is as it was at first, else `kind`, `digest`, `size`), `left_out`, and how many are the `same`.
    """
    every = sorted({path for found in ends if found is not None for path in found})
    differ = [path for path in every if len({_end_key(found, path) for found in ends if found is not None}) > 1]
    shown = [
        {"path": path, "ends": [_end_json(found.get(path)) if found is not None else None for found in ends]}
        for path in differ[:MOST_PATHS]
    ]
    return {
        "known": [found is not None for found in ends],
        "paths": shown,
        "left_out": len(differ) - len(shown),
        "same": len(every) - len(differ),
    }


def _end_key(ends: Ends, path: str) -> tuple[str, str | None, str] | None:
    entry = ends.get(path)
    return None if entry is None else (entry.kind, entry.digest, entry.type)


def _end_json(entry: EndPath | None) -> dict[str, Any] | None:
    return None if entry is None else {"kind": entry.kind, "digest": entry.digest, "size": entry.size}


def read_ends(chain: Chain, outline: Outline) -> Ends | None:
    """Returns an attempt's changes by path, from its last sealed state; None where that is missing."""
    lines = [
        line for line, kind in enumerate(outline.kinds) if kind == "e" and outline.heads[line].startswith("snapshot")
    ]
    return _manifest(chain, outline.events[lines[-1]]) if lines else None


def _manifest(chain: Chain, event: int) -> Ends | None:
    body = decode_event(chain.link(event)).body
    digest = body.evidence.data.get("manifest") if isinstance(body, EvidenceAdded) else None
    return _read_manifest(chain.store.blobs, digest) if isinstance(digest, str) else None


def _read_manifest(blobs: BlobStore, digest: str) -> Ends | None:
    """Reads a manifest; None where it is missing, too large, or invalid."""
    try:
        data = blobs.get(digest, limit=MOST_BYTES)
        found = _MANIFEST.decode(data)
    except (StoreError, msgspec.DecodeError, ValueError, RecursionError):
        return None
    return {entry.path[:1000]: entry for entry in found if entry.type != "directory"}
