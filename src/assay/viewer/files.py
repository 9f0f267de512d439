"""Where the files that attempts left behind differ, from the manifests of their last sealed states.

A manifest is a blob that the record names; it is as untrusted as the record and is read with bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from assay.errors import StoreError
from assay.records import EvidenceAdded
from assay.store import BlobStore
from assay.store.chain import event_of

from .chains import Chain
from .outline import outline_of

__all__ = ["end_files"]

MOST_BYTES: Final = 16 << 20
MOST_PATHS: Final = 400


class _Path(msgspec.Struct):
    path: str
    kind: str = "changed"
    type: str = "file"
    digest: str | None = None
    size: int | None = None


_MANIFEST = msgspec.json.Decoder(list[_Path])


def end_files(chains: Sequence[Chain]) -> dict[str, Any]:
    """Paths that are not the same at the end of all attempts.

    Returns:
        `known` (for each attempt, whether its last state is in the store), `paths` (each with `path` and, an attempt,
        null where it is as it was at first, else `kind`, `digest`, `size`), `left_out`.
    """
    held = [_end(chain) for chain in chains]
    every = sorted({path for found in held if found is not None for path in found})
    differ = [path for path in every if len({_mark(found, path) for found in held if found is not None}) > 1]
    shown = [
        {"path": path, "ends": [_told(found.get(path)) if found is not None else None for found in held]}
        for path in differ[:MOST_PATHS]
    ]
    return {
        "known": [found is not None for found in held],
        "paths": shown,
        "left_out": len(differ) - len(shown),
        "same": len(every) - len(differ),
    }


def _mark(found: dict[str, _Path], path: str) -> tuple[str, str | None, str] | None:
    entry = found.get(path)
    return None if entry is None else (entry.kind, entry.digest, entry.type)


def _told(entry: _Path | None) -> dict[str, Any] | None:
    return None if entry is None else {"kind": entry.kind, "digest": entry.digest, "size": entry.size}


def _end(chain: Chain) -> dict[str, _Path] | None:
    outline = outline_of(chain)
    lines = [
        line for line, kind in enumerate(outline.kinds) if kind == "e" and outline.heads[line].startswith("snapshot")
    ]
    return _manifest(chain, outline.events[lines[-1]]) if lines else None


def _manifest(chain: Chain, event: int) -> dict[str, _Path] | None:
    body = event_of(chain.link(event)).body
    digest = body.evidence.data.get("manifest") if isinstance(body, EvidenceAdded) else None
    return _read(chain.store.blobs, digest) if isinstance(digest, str) else None


def _read(blobs: BlobStore, digest: str) -> dict[str, _Path] | None:
    """None where it is missing, too large, or no manifest."""
    try:
        data = blobs.get(digest, limit=MOST_BYTES)
        found = _MANIFEST.decode(data)
    except (StoreError, msgspec.DecodeError, ValueError, RecursionError):
        return None
    return {entry.path[:1000]: entry for entry in found if entry.type != "directory"}
