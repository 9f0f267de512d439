"""The sealed form: Parquet tables that any reader opens, and the events with their exact bytes.

`trajectories`, `steps`, `calls`, `verdicts` and `evidence` are for reading and querying; `events` alone is the record:
the chain can be recomputed from it. Nothing sealed is ever rewritten; what is learnt later goes into `addenda`, whose
first segment names the sealed head as its predecessor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import msgspec

from assay.errors import StoreError
from assay.records import SCHEMA_VERSION, Body, Event

from .layout import Layout
from .rows import AttemptRow

__all__ = ["SealManifest", "SealedRun"]


class SealManifest(msgspec.Struct, frozen=True):
    """`seal.json`: what was sealed and the digests that say whether it still is."""

    run: str
    schema_version: int
    head: str
    """Digest over the heads of all chains, in order of their names."""
    chains: int
    events: int
    files: dict[str, str]
    """File name to digest."""
    manifest: dict[str, Any]


class SealedRun:
    """Reads a sealed run."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @cached_property
    def seal(self) -> SealManifest:
        """The seal. Raises `StoreError` when it is damaged or of a newer version."""
        try:
            found = msgspec.json.decode(self.layout.seal.read_bytes(), type=SealManifest)
        except (OSError, msgspec.DecodeError) as exc:
            message = f"{self.layout.seal} cannot be read: {exc}"
            raise StoreError(message) from exc
        if found.schema_version > SCHEMA_VERSION:
            message = f"run {found.run} was sealed by a newer Assay (schema {found.schema_version})"
            raise StoreError(message)
        return found

    def manifest(self) -> dict[str, Any]:
        """What was asked for."""
        return self.seal.manifest

    def attempts(self) -> list[AttemptRow]:
        """One row a chain."""
        table = self._read("trajectories", ["row"], None)
        return [msgspec.json.decode(row, type=AttemptRow) for row in table.column("row").to_pylist()]

    def events(self, chain: str) -> Iterator[Event]:
        """The events of a chain, in order."""
        table = self._read("events", ["index", "previous", "body", "digest"], [("chain", "==", chain)])
        for row in table.to_pylist():
            body = msgspec.json.decode(row["body"], type=Body)
            yield Event(chain, row["index"], row["previous"], body, row["digest"])

    def _read(self, name: str, columns: list[str], filters: list[tuple[str, str, str]] | None) -> Any:
        import pyarrow.lib
        import pyarrow.parquet as pq

        path = self.layout.sealed / f"{name}.parquet"
        try:
            return pq.read_table(path, columns=columns, filters=filters)
        except (OSError, pyarrow.lib.ArrowException) as exc:
            message = f"{path} cannot be read: {exc}"
            raise StoreError(message) from exc
